package document

import (
	"testing"

	"byline/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }
