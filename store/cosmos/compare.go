package cosmos

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// Compare returns how the account, a database and its containers differ from what requests need. It
// changes nothing. Throughput, which no Entra identity may read, is compared only with the account's key.
func (a *Account) Compare(ctx context.Context, spec DatabaseSpec) ([]Difference, error) {
	db, missing, err := a.readDatabase(ctx, spec.Name)
	if err != nil {
		return nil, err
	}
	all := a.compareAccount()
	if missing {
		all = append(all, Difference{Property: "database", Text: fmt.Sprintf("there is no database %s", spec.Name), Breaks: true})
		return append(all, absent(spec.Containers)...), nil
	}
	differ, missingContainers, err := compareContainers(ctx, db, spec.Containers)
	if err != nil {
		return nil, err
	}
	all = append(append(all, absent(missingContainers)...), differ...)
	throughput, err := compareThroughput(ctx, db, spec)
	return append(all, throughput...), err
}

func absent(containers []ContainerSpec) (all []Difference) {
	for _, c := range containers {
		all = append(all, Difference{c.Name, "container", "it does not exist", true})
	}
	return all
}

// compareAccount returns how the account's properties differ from what requests need.
func (s *shared) compareAccount() (all []Difference) {
	if s.multipleWrites() {
		all = append(all, Difference{Property: "multi-region writes", Text: ErrMultiRegionWrites.Error(), Breaks: true})
	}
	all = append(all, s.compareRegions()...)
	all = append(all, s.compareConsistency()...)
	if p := s.properties.Load(); p != nil && (p.Consistency.Level == azcosmos.ConsistencyLevelStrong || p.Consistency.Level == azcosmos.ConsistencyLevelBoundedStaleness) {
		all = append(all, Difference{Property: "consistency",
			Text: fmt.Sprintf("the default consistency is %s, with which reads cost twice as much as with Session", p.Consistency.Level)})
	}
	return all
}

// compareConsistency returns a difference if the account's default consistency is weaker than Session,
// which requests cannot strengthen.
func (s *shared) compareConsistency() []Difference {
	p := s.properties.Load()
	if p == nil || p.Consistency.Level != azcosmos.ConsistencyLevelEventual && p.Consistency.Level != azcosmos.ConsistencyLevelConsistentPrefix {
		return nil
	}
	return []Difference{{Property: "consistency", Text: fmt.Sprintf(
		"the default consistency is %s, so viewers may not read their own writes, and renames and deletions may miss items; set it to Session", p.Consistency.Level)}}
}

// compareThroughput returns how the throughput of a database and its containers differs from
// MaxThroughput; nothing if that is 0, or if this identity may not read it.
func compareThroughput(ctx context.Context, db *azcosmos.DatabaseClient, spec DatabaseSpec) (all []Difference, err error) {
	if spec.MaxThroughput == 0 {
		return nil, nil
	}
	have, err := db.ReadThroughput(ctx, nil)
	switch {
	case isControlPlane(err):
		return nil, nil
	case hasNoThroughput(err):
		all = append(all, Difference{Property: "throughput", Text: "the database has no throughput that its containers share"})
	case err != nil:
		return nil, fmt.Errorf("read the throughput of database %s: %w", spec.Name, wrap(err))
	default:
		if most, ok := have.ThroughputProperties.AutoscaleMaxThroughput(); !ok || int(most) != spec.MaxThroughput {
			all = append(all, Difference{Property: "throughput", Text: fmt.Sprintf("the database has %s, not autoscale up to %d RU/s", throughputText(have), spec.MaxThroughput)})
		}
	}
	for _, c := range spec.Containers {
		container, err := db.NewContainer(c.Name)
		if err != nil {
			return nil, err
		}
		own, err := container.ReadThroughput(ctx, nil)
		if hasNoThroughput(err) { // it shares the database's, or does not exist
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the throughput of container %s: %w", c.Name, wrap(err))
		}
		all = append(all, Difference{Container: c.Name, Property: "throughput", Text: fmt.Sprintf("it has %s of its own", throughputText(own))})
	}
	return all, nil
}

// hasNoThroughput reports whether ReadThroughput failed because no throughput is set: with 404, or in a serverless
// account with 400 ("Reading or replacing offers is not supported for serverless accounts").
func hasNoThroughput(err error) bool {
	return HasStatus(err, http.StatusNotFound) ||
		HasStatus(err, http.StatusBadRequest) && strings.Contains(err.Error(), "serverless accounts")
}

func throughputText(r azcosmos.ThroughputResponse) string {
	if most, ok := r.ThroughputProperties.AutoscaleMaxThroughput(); ok {
		return fmt.Sprintf("autoscale up to %d RU/s", most)
	}
	manual, _ := r.ThroughputProperties.ManualThroughput()
	return fmt.Sprintf("%d RU/s", manual)
}
