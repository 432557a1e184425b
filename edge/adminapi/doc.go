// Package adminapi describes the origin's admin API to its callers: the JSON
// types of its requests and answers, a client, and the OpenAPI document.
//
// The origin answers with these types, and the console, the commands and the
// benches read the same ones. Each type has the name of its schema in the
// OpenAPI document. Fields of requests are pointers, since the API treats a
// field that is left out unlike one that is empty.
//
//	client := &adminapi.Client{URL: "http://127.0.0.1:8090", Token: token}
//	account, err := client.CreateAccount(ctx, adminapi.NewAccount{…})
//	for node, err := range adminapi.All[adminapi.Node](ctx, client, "/nodes", nil) {…}
package adminapi

import _ "embed"

//go:embed openapi.json
var openAPI []byte

// OpenAPI returns the OpenAPI document of the admin API.
func OpenAPI() []byte { return openAPI }
