package console

import (
	"cmp"
	"log/slog"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/alecthomas/kong"
)

// maxTypos is the largest edit distance between a variable and the one that was probably meant.
const maxTypos = 2

// warnUnknown logs which variables begin with the program's name although no command reads
// them. It never logs their values.
func (p Program) warnUnknown(log *slog.Logger, commands *kong.Node, variables []string) {
	prefix, known := strings.ToUpper(p.Name)+"_", append(environment(commands), p.Variables...)
	var names []string
	ignored := []string{prefix + "TEST_"} // prefixes
	for _, variable := range variables {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		names = append(names, name)
		// For a Service byline-canary Kubernetes sets BYLINE_CANARY_SERVICE_HOST, BYLINE_CANARY_SERVICE_PORT,
		// BYLINE_CANARY_PORT, and others that begin with the last two.
		if service, ok := strings.CutSuffix(name, "SERVICE_HOST"); ok {
			ignored = append(ignored, name, service+"SERVICE_PORT", service+"PORT")
		}
	}
	slices.Sort(names)
	var unknown []string
	for _, name := range names {
		begins := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
		if slices.Contains(known, name) || slices.ContainsFunc(ignored, begins) {
			continue
		}
		typos := func(meant string) int { // also finds COSMOS_KEY for BYLINE_COSMOS_KEY
			return min(levenshtein.ComputeDistance(name, meant),
				levenshtein.ComputeDistance(strings.TrimPrefix(name, prefix), meant))
		}
		closest := slices.MinFunc(known, func(a, b string) int { return cmp.Compare(typos(a), typos(b)) })
		if typos(closest) <= maxTypos {
			name += " (did you mean " + closest + "?)"
		}
		unknown = append(unknown, name)
	}
	if len(unknown) > 0 {
		log.Warn("unknown environment variables", "variables", strings.Join(unknown, ", "))
	}
}
