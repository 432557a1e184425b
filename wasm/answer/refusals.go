package answer

// Refusal describes an error code of the partner API: when it is answered, and what a
// partner's program had better do.
type Refusal struct {
	Status  int
	Code    string // in the body's field error
	Meaning string
	Remedy  string
	Reasons []Reason // that the body's field reason may have
}

// Reason describes one value of the field reason.
type Reason struct{ Name, Meaning string }

// HelpPath is where the guide explains every error: each at #CODE, and at #CODE-REASON.
const HelpPath = "/docs/errors"

// Refusals returns every error that the partner API answers. The guide shows them, and
// tests hold the OpenAPI document, and thereby every answer, against them.
func Refusals() []Refusal {
	return append(accessRefusals(), requestRefusals()...)
}

// accessRefusals are those of the pipeline before a handler.
func accessRefusals() []Refusal {
	return []Refusal{
		{401, "unauthorized", "The request has no key, or one that is not good.",
			"Do not send it again as it is. Check the key, and ask for a new one if it has ended.", []Reason{
				{"missing_bearer_token", "There is no header Authorization: Bearer KEY. A key without the word Bearer, or in another header, is none. It does not count towards a lockout."},
				{"malformed_api_key", "The text is no key: a prefix, 36 letters and digits, of which the last six are a checksum. Look for a cut or a line break."},
				{"unknown_api_key", "No such key was ever issued here. Is it one of another installation, or of the sandbox?"},
				{"api_key_revoked", "The key was revoked. Ask for a new one."},
				{"api_key_expired", "The key reached its end, a year after it was made unless it was agreed otherwise."},
				{"api_key_grace_expired", "The key was rotated, and its grace of 7 days is over. Use its successor."},
			}},
		{403, "forbidden", "The key is good, and may not do this.",
			"Do not send it again as it is. Ask whoever issued the key to change it.", []Reason{
				{"insufficient_scope", "The key lacks the operation's scope."},
				{"ip_not_allowed", "The key has an allowlist, and the request came from another address. Behind a proxy or NAT that is the address seen outside."},
			}},
		{403, "too_many_failed_attempts", "The address presented too many keys that are not good: 20 within 5 minutes lock it out for 15.",
			"Stop. Mend the program that sends the wrong key, then wait for Retry-After: good keys are refused too from this address. Whoever runs the service can end the lockout earlier.", []Reason{
				{"ip_locked_out", "The address is locked out, whichever key it presents."},
			}},
		{403, "cors_not_allowed", "A browser asked whether a page of another site may call the API, which it may not.",
			"Call the API from your own server. A key in a page is a key that every visitor has: revoke one that was.", []Reason{
				{"keys_do_not_belong_in_browsers", "The browser asked by OPTIONS with Origin and Access-Control-Request-Method, and is answered without Access-Control-Allow-Origin."},
			}},
		{429, "rate_limited", "The key made more requests than it may.",
			"Wait for Retry-After and send it again. Nothing was done.", []Reason{
				{"rate_limited", "The key's bucket is empty."},
			}},
		{404, "not_found", "No operation has this path.", "Compare the path with the reference, slash by slash.", nil},
		{405, "method_not_allowed", "The path has no such method.", "The header Allow names those that it has.", nil},
		{400, "malformed_request", "The body comes in chunks (Transfer-Encoding: chunked) that cannot be read, or over HTTP/2 is shorter than its Content-Length.", "Do not send it again as it is. Look for what writes the chunks or the length: a proxy, or a client that writes HTTP by hand.", nil},
		{408, "request_timeout", "The body did not arrive whole, or not in time.", "Send it again, with an Idempotency-Key where there may be one.", nil},
		{413, "payload_too_large", "The body is larger than 64 KiB.", "Send less: no body of this API needs that much.", nil},
		{431, "header_too_large", "The request's line and headers are larger than 16 KiB.",
			"Send fewer headers, or shorter ones: the API reads Authorization, Content-Type and Idempotency-Key. Far larger ones (about 35 KiB over HTTP/1.1; 32 KiB over HTTP/2, counting 32 bytes extra per header) are refused before they are read to their end, without JSON or a request id.", nil},
		{500, "internal_error", "The service could not answer now, for instance because a node cannot reach the origin. A POST may have been done although its answer was lost or 500.",
			"Send it again after Retry-After, then with twice the wait each time, and give up after ten minutes. Send a POST again with the same Idempotency-Key: without one, a lead may be kept twice. Tell us the X-Request-Id if it lasts.", nil},
	}
}

// requestRefusals are those of handlers, about what was asked.
func requestRefusals() []Refusal {
	return []Refusal{
		{400, "invalid_parameter", "A query parameter cannot be read.", "Mend the request. Numbers out of bounds are no error: the nearest bound is used.", []Reason{
			{"limit_not_integer", "limit is no whole number."},
			{"since_not_iso8601", "since is no time such as 2026-03-02T14:05:11Z."},
			{"cursor_not_iso8601", "cursor is no time. Use next_cursor of the page before as it is."},
		}},
		{400, "invalid_body", "The body is not a JSON object that can be read.", "Mend the request. Look for a trailing comma, a body that is form-encoded, or text that is not UTF-8.", []Reason{
			{"json_parse_failed", "It is not JSON in UTF-8, or not an object; or it is more than 16 levels deep, or a text in it has a NUL character or half of a surrogate pair."},
		}},
		{400, "invalid_lead", "The body is JSON, and no lead that can be taken. Nothing was kept.", "Mend the lead, or ask the person who filled in the form.", []Reason{
			{"name_required", "Neither first_name nor name has any text."},
			{"contact_required", "Neither email nor phone has any text."},
			{"invalid_email", "email is no address of one person."},
			{"invalid_phone", "phone is no telephone number: 7 to 15 digits with spaces and ( ) - . / among them, at most one + in front, and behind x, ext or # an extension of 1 to 6 digits, if any."},
			{"invalid_consent_status", "consent.status is none of express_written, inbound_initiated and none."},
			{"invalid_captured_at", "consent.captured_at is no time, or one before 1970-01-02."},
			{"field_too_long", "Names may have 200 characters, email 254, phone 32, consent.text_snapshot 10 000."},
			{"invalid_field_type", "A field is no text, or consent is no object."},
		}},
		{400, "invalid_idempotency_key", "The header Idempotency-Key is not 1 to 255 printable ASCII characters, or is there twice.", "Send a UUID, made once for each thing that you do.", nil},
		{409, "idempotency_conflict", "The Idempotency-Key was used within 24 hours for another body, or for a subscription that was revoked, or whose secret was rotated, since.",
			"Use a new key for a new thing. For the same thing send the same body, byte for byte.", nil},
		{400, "invalid_target_url", "target_url may not be called.", "Register an HTTPS address that the public internet reaches.", []Reason{
			{"missing", "There is no target_url."},
			{"not_a_url", "It is no URL."},
			{"scheme_not_https", "It does not begin with https://."},
			{"credentials_in_url", "There is a user name or a password in it."},
			{"port_not_allowed", "The port is neither 443 nor 1024 or more."},
			{"host_not_public", "The host is, or has among its addresses, one that is not public: loopback, a private network, a cloud's metadata."},
			{"dns_failure", "The host's addresses could not be found just now. Check the name, then send it again."},
			{"too_long", "It has more than 2 048 characters."},
		}},
		{400, "no_valid_events", "No name in events is known.", "Take names from the list of events.", []Reason{
			{"events_array_empty_or_unknown", "events is missing, empty, or names no event that there is."},
		}},
		{400, "invalid_description", "description is not a text that can be kept.", "Shorten it, or leave it out.", []Reason{
			{"invalid_field_type", "It is no text."},
			{"field_too_long", "It has more than 500 characters."},
		}},
		{400, "subscription_limit_reached", "The account has 100 active subscriptions in the key's environment.", "Revoke those that are not used.", nil},
		{400, "invalid_id", "The path has no id.", "Send DELETE to /api/v2/public/webhooks/ID.", nil},
		{404, "subscription_not_found", "The account has no such subscription.", "Check the id, and that the key is one of the account that subscribed.", nil},
	}
}
