package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"partneredge/edge/adminapi"
	"partneredge/edge/origin/admin/input"
	"partneredge/store"
	"partneredge/store/central"
)

func (a *api) createAccount(r *http.Request, in adminapi.NewAccount, v *input.Validator) (answer, error) {
	account := store.Account{Name: v.Text("name", in.Name, input.MaxName), Mode: store.ModeSetup}
	if in.ActivationMode != nil {
		account.Mode = store.Mode(v.OneOf("activation_mode", in.ActivationMode, string(store.ModeLive), string(store.ModeSetup)))
	}
	if in.Agent == nil {
		v.Fail("agent", "required", "agent must have email and full_name")
	} else {
		account.Agent.Email = v.Email("agent.email", in.Agent.Email)
		account.Agent.FullName = v.Text("agent.full_name", in.Agent.FullName, input.MaxName)
	}
	if err := v.Err(); err != nil {
		return answer{}, err
	}
	account, err := a.DB.CreateAccount(r.Context(), account)
	return created(toAccount(account), err)
}

// patchAccount changes what is named and leaves the rest as it is.
func (a *api) patchAccount(r *http.Request, in adminapi.AccountPatch, v *input.Validator) (answer, error) {
	patch := central.AccountPatch{Name: in.Name}
	if in.Name != nil {
		v.Text("name", in.Name, input.MaxName)
	}
	if in.ActivationMode != nil {
		mode := store.Mode(v.OneOf("activation_mode", in.ActivationMode, string(store.ModeLive), string(store.ModeSetup)))
		patch.Mode = &mode
	}
	if in.Agent != nil {
		patch.Email, patch.FullName = in.Agent.Email, in.Agent.FullName
		if patch.Email != nil {
			v.Email("agent.email", patch.Email)
		}
		if patch.FullName != nil {
			v.Text("agent.full_name", patch.FullName, input.MaxName)
		}
	}
	if err := v.Err(); err != nil {
		return answer{}, err
	}
	account, _, err := a.DB.UpdateAccount(r.Context(), r.PathValue("id"), patch)
	return ok(toAccount(account), err)
}

// eraseAccount removes an account with all that is kept of it, and answers how many
// records of each kind went.
func (a *api) eraseAccount(r *http.Request) (answer, error) {
	id := r.PathValue("id")
	return ok(slow(func(ctx context.Context) (any, error) {
		// What has begun goes on when the client is gone: half an account is of no use.
		erased, err := a.DB.EraseAccount(context.WithoutCancel(ctx), id)
		return adminapi.ErasedAccount{ID: id, Erased: erased}, err
	}), nil)
}

// bury deletes a lead or an account again that was deleted before, in case a backup or a
// node has brought it back, and keeps it from coming back.
func (a *api) bury(r *http.Request, in adminapi.NewTombstone, v *input.Validator) (answer, error) {
	at := v.Time("deleted_at", in.DeletedAt)
	if in.ID == nil {
		v.Fail("id", "required", "id must not be empty")
	}
	if err := v.Err(); err != nil {
		return answer{}, err
	}
	return created(slow(func(ctx context.Context) (any, error) {
		// The store alone judges the id: whatever can be a lead's is to be deleted again.
		buried, err := a.DB.Bury(context.WithoutCancel(ctx), store.Tombstone{ID: *in.ID, DeletedAt: at})
		if errors.Is(err, store.ErrInvalid) {
			v.Fail("id", "invalid", said(err, store.ErrInvalid))
			err = v.Err()
		}
		return toTombstone(buried), err
	}), nil)
}

func toTombstone(s store.Tombstone) adminapi.Tombstone {
	return adminapi.Tombstone{ID: s.ID, DeletedAt: stamp(s.DeletedAt)}
}

// exportAccount streams all that is kept of an account, and last how much it was, so
// that a reader knows that nothing is missing.
func (a *api) exportAccount(r *http.Request) (answer, error) {
	id := r.PathValue("id")
	if _, err := a.DB.Account(r.Context(), id); err != nil {
		return answer{}, err
	}
	return ok(lines(func(ctx context.Context, line func(any) error) error {
		end := adminapi.ExportEnd{Counts: make(map[string]int64)}
		err := a.DB.ExportAccount(ctx, id, func(record any) error {
			kind, shown, err := a.exported(ctx, record)
			if err != nil {
				return err
			}
			end.Counts[kind]++
			return line(adminapi.Exported[any]{Kind: kind, Record: shown})
		})
		if err != nil {
			return err
		}
		return line(adminapi.Exported[any]{Kind: adminapi.ExportedEnd, Record: end})
	}), nil)
}

// exported returns the kind of a record of an export, and its JSON type.
func (a *api) exported(ctx context.Context, record any) (kind string, shown any, err error) {
	switch r := record.(type) {
	case store.Account:
		return "account", toAccount(r), nil
	case store.Key:
		shown, err := a.withUse(ctx, r)
		if err != nil {
			return "", nil, err
		}
		return "key", shown[0], nil
	case store.Subscription:
		return "subscription", a.toWebhook(r), nil
	case store.Lead:
		return "lead", toLead(r), nil
	case store.QuarantinedLead:
		return "quarantined_lead", toQuarantinedWithBody(r), nil
	case store.Contact:
		return "contact", toContact(r, nil), nil
	case store.Insight:
		return "insight", toInsight(r), nil
	case store.Firing:
		return "firing", toFiring(r, nil), nil
	case store.Deal:
		return "deal", toDeal(r, nil), nil
	case store.Goal:
		return "goal", toGoal(r, nil), nil
	case store.Event:
		return "event", r.Body, nil
	case central.LoggedDelivery:
		return "delivery", toDelivery(r.Delivery, r.Attempts), nil
	}
	return "", nil, fmt.Errorf("an export has a record of type %T", record)
}
