package server

// Timeouts, so that a test need not wait for the defaults.
var (
	ReadHeaderTimeout = &readHeaderTimeout
	ReadTimeout       = &readTimeout
	WriteTimeout      = &writeTimeout
	IdleTimeout       = &idleTimeout
	ShutdownTimeout   = &shutdownTimeout
)
