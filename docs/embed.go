// Package docs holds the documentation that the binary serves itself.
package docs

import _ "embed"

// OpenAPI is the HTTP API as an OpenAPI 3 document in JSON. It is generated from openapi.yaml by
// `go test ./gateway -run OpenAPI -update`, and a test holds the two, and the gateway, together.
//
//go:embed openapi.json
var OpenAPI []byte
