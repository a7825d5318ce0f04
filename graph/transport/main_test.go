package transport

import (
	"testing"

	"byline/internal/testmain"
)

func TestMain(m *testing.M) { testmain.Run(m) }
