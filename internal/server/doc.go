// Package server runs the gateway as a server: Run checks the configuration, opens the listeners,
// traces, the account and the GraphQL handler, provisions the containers, starts the projections,
// and serves GraphQL, /healthz, /readyz and /metrics, over TLS if there is a certificate.
//
// When its context ends, Run
//
//  1. makes /readyz respond 503, and keeps serving for the time of --drain,
//  2. ends subscriptions,
//  3. accepts no more connections and waits up to ten seconds for active requests,
//  4. stops /metrics,
//  5. stops the projections, which release their leases, and the load of the demo blog,
//  6. closes the account, and with it the embedded engine,
//  7. sends the last traces.
//
// Package byline/internal/account opens the account, byline/graph executes operations.
// Shutdown and Address are for other servers of the program. Calls of Run are independent of
// each other, except for a global of the process: with traces, each sets the error handler of OpenTelemetry
// (otel.SetErrorHandler), which logs to the last one's log.
package server
