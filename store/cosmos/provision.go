package cosmos

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// ContainersError reports that existing containers cannot be used.
type ContainersError struct {
	Differences []Difference // all that break requests
}

// Error lists the differences.
func (e *ContainersError) Error() string {
	all := make([]string, len(e.Differences))
	for i, d := range e.Differences {
		all[i] = d.String()
	}
	return strings.Join(all, "; ")
}

// MissingError reports that containers do not exist, and that an Entra identity may not create them:
// only the account's key and the control plane can.
type MissingError struct {
	Database   string
	Containers []string // names
	Err        error    // Cosmos DB's response
}

// Error names the containers.
func (e *MissingError) Error() string {
	return fmt.Sprintf("database %s lacks the containers %s, and an Entra identity may not create them", e.Database, strings.Join(e.Containers, ", "))
}

// Unwrap returns Cosmos DB's response.
func (e *MissingError) Unwrap() error { return e.Err }

// Provision creates the database and the containers that are missing. It does not change existing
// containers, but compares them with the specifications: it logs differences that break nothing, and
// returns the others as a *ContainersError, without creating anything. It returns ErrMultiRegionWrites
// for an account with multi-region writes. It is idempotent, and may run in several processes at once.
func (a *Account) Provision(ctx context.Context, spec DatabaseSpec) error {
	db, newDatabase, err := a.readDatabase(ctx, spec.Name)
	if err != nil {
		return err
	}
	if a.multipleWrites() {
		return ErrMultiRegionWrites
	}
	a.warn(append(a.compareRegions(), a.compareConsistency()...))
	missing := spec.Containers
	if !newDatabase {
		if missing, err = a.usable(ctx, db, spec.Containers); err != nil {
			return err
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if newDatabase {
		if err := a.createDatabase(ctx, spec); err != nil && !HasStatus(err, http.StatusConflict) {
			return notCreated("database "+spec.Name, spec.Name, missing, err)
		}
	} else if spec.MaxThroughput > 0 {
		if _, err := db.ReadThroughput(ctx, nil); HasStatus(err, http.StatusNotFound) { // not serverless; see hasNoThroughput
			a.log.Warn("the database has no throughput that its containers share, and cannot get it: each new container has 400 RU/s of its own", "database", spec.Name)
		}
	}
	var others []ContainerSpec // that another process has created meanwhile
	var created []string       // names
	for i, c := range missing {
		_, err := db.CreateContainer(ctx, c.properties(), nil)
		if HasStatus(err, http.StatusConflict) {
			others = append(others, c)
		} else if err != nil {
			return notCreated("container "+c.Name, spec.Name, missing[i:], err)
		} else {
			created = append(created, c.Name)
		}
	}
	if len(created) > 0 {
		a.log.Info("containers created", "database", spec.Name, "containers", strings.Join(created, " "))
	}
	_, err = a.usable(ctx, db, others)
	return err
}

// createDatabase creates a database with its throughput; in a serverless account, which refuses throughput,
// without.
func (a *Account) createDatabase(ctx context.Context, spec DatabaseSpec) error {
	_, err := a.client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: spec.Name}, spec.options())
	if isServerless(err) {
		_, err = a.client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: spec.Name}, nil)
	}
	return err
}

// readDatabase returns a database, and reports whether it is missing.
func (a *Account) readDatabase(ctx context.Context, name string) (db *azcosmos.DatabaseClient, missing bool, err error) {
	if db, err = a.client.NewDatabase(name); err != nil {
		return nil, false, err
	}
	_, err = db.Read(ctx, nil)
	if HasStatus(err, http.StatusNotFound) {
		return db, true, nil
	}
	if err != nil {
		err = fmt.Errorf("read database %s: %w", name, wrap(err))
	}
	return db, false, err
}

// notCreated returns the error of a database or a container that could not be created.
func notCreated(what, database string, missing []ContainerSpec, err error) error {
	if !isControlPlane(err) {
		return fmt.Errorf("create %s: %w", what, wrap(err))
	}
	e := &MissingError{Database: database, Err: wrap(err)}
	for _, spec := range missing {
		e.Containers = append(e.Containers, spec.Name)
	}
	return e
}

// isControlPlane reports whether err refuses an operation that Entra identities may not do.
func isControlPlane(err error) bool {
	return HasStatus(err, http.StatusForbidden) && ErrorOf(err).Substatus == substatusControlPlane
}

// usable returns the missing containers, and a *ContainersError if differences of others break requests.
func (a *Account) usable(ctx context.Context, db *azcosmos.DatabaseClient, containers []ContainerSpec) (missing []ContainerSpec, err error) {
	all, missing, err := compareContainers(ctx, db, containers)
	if err != nil {
		return nil, err
	}
	a.warn(all)
	if broken := slices.DeleteFunc(all, func(d Difference) bool { return !d.Breaks }); len(broken) > 0 {
		return nil, &ContainersError{broken}
	}
	return missing, nil
}

// warn logs the differences that break nothing.
func (a *Account) warn(all []Difference) {
	for _, d := range all {
		switch {
		case d.Breaks:
		case d.Container == "":
			a.log.Warn("account differs from what requests need", "difference", d.Text)
		default:
			a.log.Warn("container differs from what requests need", "container", d.Container, "difference", d.Text)
		}
	}
}
