package admin

import (
	"net/http"

	"partneredge/edge/adminapi"
	"partneredge/store"
	"partneredge/store/central"
)

func (a *api) createAccount(r *http.Request) (answer, error) {
	var in adminapi.NewAccount
	if err := decode(r, &in); err != nil {
		return answer{}, err
	}
	c := checks{kind: "invalid_account"}
	account := store.Account{Name: c.text("name", in.Name, maxName), Mode: store.ModeSetup}
	if in.ActivationMode != nil {
		account.Mode = store.Mode(c.oneOf("activation_mode", in.ActivationMode, string(store.ModeLive), string(store.ModeSetup)))
	}
	if in.Agent == nil {
		c.fail("agent", "required", "agent must have email and full_name")
	} else {
		account.Agent.Email = c.email("agent.email", in.Agent.Email)
		account.Agent.FullName = c.text("agent.full_name", in.Agent.FullName, maxName)
	}
	if err := c.err(); err != nil {
		return answer{}, err
	}
	account, err := a.DB.CreateAccount(r.Context(), account)
	if err != nil {
		return answer{}, err
	}
	return created(toAccount(account))
}

func (a *api) listAccounts(r *http.Request) (answer, error) {
	return list(r, func(p store.Page) ([]store.Account, string, error) {
		return a.DB.Accounts(r.Context(), p)
	}, toAccount)
}

func (a *api) getAccount(r *http.Request) (answer, error) {
	account, err := a.DB.Account(r.Context(), r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	return ok(toAccount(account))
}

// patchAccount changes what is named and leaves the rest as it is.
func (a *api) patchAccount(r *http.Request) (answer, error) {
	var in adminapi.AccountPatch
	if err := decode(r, &in); err != nil {
		return answer{}, err
	}
	c := checks{kind: "invalid_account"}
	patch := central.AccountPatch{Name: in.Name}
	if in.Name != nil {
		c.text("name", in.Name, maxName)
	}
	if in.ActivationMode != nil {
		mode := store.Mode(c.oneOf("activation_mode", in.ActivationMode, string(store.ModeLive), string(store.ModeSetup)))
		patch.Mode = &mode
	}
	if in.Agent != nil {
		patch.Email, patch.FullName = in.Agent.Email, in.Agent.FullName
		if patch.Email != nil {
			c.email("agent.email", patch.Email)
		}
		if patch.FullName != nil {
			c.text("agent.full_name", patch.FullName, maxName)
		}
	}
	if err := c.err(); err != nil {
		return answer{}, err
	}
	account, _, err := a.DB.UpdateAccount(r.Context(), r.PathValue("id"), patch)
	if err != nil {
		return answer{}, err
	}
	return ok(toAccount(account))
}
