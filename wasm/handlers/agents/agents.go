// Package agents answers requests for the agent that owns an API key.
package agents

import (
	"partneredge/wasm/abi"
	"partneredge/wasm/answer"
	"partneredge/wasm/handlers"
	"partneredge/wasm/isotime"
)

// Handle answers GET /api/v2/public/agents/me.
func Handle(_ *abi.Request, resp *abi.Response, views handlers.Views) {
	p, err := views.Profile()
	if err != nil {
		answer.Internal(resp)
		return
	}
	b := append(resp.Body[:0], `{"agent":{"id":`...)
	b = answer.AppendString(b, p.AgentID)
	b = answer.AppendString(append(b, `,"email":`...), p.Email)
	b = answer.AppendString(append(b, `,"full_name":`...), p.FullName)
	b = isotime.Append(append(b, `,"joined_at":"`...), p.Joined)
	b = answer.AppendString(append(b, `"},"account":{"id":`...), p.AccountID)
	b = answer.AppendString(append(b, `,"name":`...), p.AccountName)
	b = answer.AppendString(append(b, `,"activation_mode":`...), p.Mode)
	resp.Status = 200
	resp.Body = append(b, `},"api_version":"v2"}`...)
}
