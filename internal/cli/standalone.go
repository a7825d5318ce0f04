package cli

// Time zones and Mozilla's CA certificates, for images that contain only the program. Go uses them only if the
// machine has none.
import (
	_ "time/tzdata"

	_ "golang.org/x/crypto/x509roots/fallback"
)
