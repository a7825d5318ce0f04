package cli

// What Go otherwise takes from files of the machine, for images that have nothing but the program: the
// time zones, and Mozilla's CA certificates. They are used only where the machine has none of its own.
import (
	_ "time/tzdata"

	_ "golang.org/x/crypto/x509roots/fallback"
)
