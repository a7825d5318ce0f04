package document

import (
	"testing"

	"go.uber.org/goleak"

	"byline/internal/secrettest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.Cleanup(secrettest.Exit)) }
