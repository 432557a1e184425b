package abi

// The types of events.
const (
	EventInsightCreated  = "agent.coaching_insight_created"
	EventSentinelFired   = "sentinel.fired"
	EventDealChanged     = "deal.stage_changed"
	EventClientContacted = "client.contacted"
	EventGoalChanged     = "goal.pace_changed"
)

// EventTypes are the types of events, in the contract's order.
var EventTypes = [...]string{EventInsightCreated, EventSentinelFired, EventDealChanged, EventClientContacted, EventGoalChanged}
