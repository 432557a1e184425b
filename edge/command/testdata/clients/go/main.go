// Clients calls all six endpoints with the client that oapi-codegen generates. The guide's
// function firings is in a file beside it.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"

	"clients/openapi"
)

func main() {
	if err := run(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, base, key string) error {
	api, err := openapi.NewClientWithResponses(base, openapi.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+key)
		return nil
	}))
	if err != nil {
		return err
	}
	one := 1
	profile, err := api.GetAgentWithResponse(ctx)
	if err != nil || profile.JSON200 == nil {
		return fmt.Errorf("get the agent: %w %s", err, profile.Body)
	}
	insights, err := api.ListInsightsWithResponse(ctx, &openapi.ListInsightsParams{Limit: &one})
	if err != nil || insights.JSON200 == nil {
		return fmt.Errorf("list insights: %w %s", err, insights.Body)
	}
	page, err := api.ListFiringsWithResponse(ctx, &openapi.ListFiringsParams{Limit: &one})
	if err != nil || page.JSON200 == nil {
		return fmt.Errorf("list firings: %w %s", err, page.Body)
	}
	all, err := firings(ctx, api, 1)
	if err != nil {
		return err
	}
	name, email, status, text, idempotency := "Sam Okafor", "sam@example.com", openapi.ExpressWritten, "I agree.", "oapi-codegen"
	lead, err := api.CreateLeadWithResponse(ctx, &openapi.CreateLeadParams{IdempotencyKey: &idempotency}, openapi.LeadRequest{
		Name: &name, Email: &email, Consent: &openapi.Consent{Status: &status, TextSnapshot: &text},
	})
	if err != nil || lead.JSON201 == nil {
		return fmt.Errorf("create a lead: %w %s", err, lead.Body)
	}
	made, err := api.SubscribeWithResponse(ctx, nil, openapi.SubscribeRequest{TargetUrl: "https://1.1.1.1/hooks", Events: []string{"deal.stage_changed"}})
	if err != nil || made.JSON201 == nil {
		return fmt.Errorf("subscribe: %w %s", err, made.Body)
	}
	revoked, err := api.RevokeSubscriptionWithResponse(ctx, made.JSON201.Subscription.Id)
	if err != nil || revoked.JSON200 == nil {
		return fmt.Errorf("revoke: %w %s", err, revoked.Body)
	}
	refused, err := api.CreateLeadWithResponse(ctx, nil, openapi.LeadRequest{Name: &name})
	if err != nil || refused.JSON400 == nil {
		return fmt.Errorf("create a lead without contact: %w %s", err, refused.Body)
	}
	var refusal struct{ Error string }
	if err := json.Unmarshal(refused.Body, &refusal); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode([]any{
		profile.JSON200.Account.Name != "", len(insights.JSON200.Insights), page.JSON200.Limit, *lead.JSON201.Lead.LastName,
		len(made.JSON201.Secret), revoked.JSON200.Ok, refusal.Error, len(all),
	})
}
