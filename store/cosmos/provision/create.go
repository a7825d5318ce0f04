package provision

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"byline/store/cosmos"

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
	return fmt.Sprintf("database %s lacks the containers %s, and an Entra identity may not create them", e.Database,
		strings.Join(e.Containers, ", "))
}

// Unwrap returns Cosmos DB's response.
func (e *MissingError) Unwrap() error { return e.Err }

// Create creates the database and the containers that are missing. It does not change existing containers, but
// compares them with the specifications: it logs differences that break nothing, and returns the others as a
// *ContainersError, without creating anything. If a container for full texts cannot be created, because the account
// lacks the capability or this identity may not, it logs that and goes on. It returns cosmos.ErrMultiRegionWrites for
// an account with multi-region writes. It is idempotent.
func Create(ctx context.Context, a *cosmos.Account, spec DatabaseSpec) error {
	db, newDatabase, err := readDatabase(ctx, a, spec.Name)
	if err != nil {
		return err
	}
	account := a.Properties()
	if account.MultipleWrites {
		return cosmos.ErrMultiRegionWrites
	}
	warn(a, append(compareRegions(account), compareConsistency(account)...))
	missing := spec.Containers
	if !newDatabase {
		if missing, err = usable(ctx, a, db, spec.Containers); err != nil {
			return err
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if newDatabase {
		if err := createDatabase(ctx, a, spec); err != nil && !cosmos.HasStatus(err, http.StatusConflict) {
			return notCreated("database "+spec.Name, spec.Name, missing, err)
		}
	} else if spec.MaxThroughput > 0 {
		// not serverless; see hasNoThroughput
		if _, err := db.ReadThroughput(ctx, nil); cosmos.HasStatus(err, http.StatusNotFound) {
			a.Logger().Warn(
				"the database has no throughput that its containers share, and cannot get it: each new container has "+
					"400 RU/s of its own", "database", spec.Name)
		}
	}
	var others []ContainerSpec // that another process has created meanwhile
	var created []string       // names
	for i, c := range missing {
		_, err := db.CreateContainer(ctx, c.properties(), nil)
		if cosmos.HasStatus(err, http.StatusConflict) {
			others = append(others, c)
		} else if len(c.FullText) > 0 && refusesFullText(err) {
			a.Logger().Warn("container not created: there is no full-text search until the account has the capability "+
				"(az cosmosdb update --capabilities EnableNoSQLFullTextSearch, with those that it has) and "+
				"\"byline provision\", then \"byline views rebuild\" have run", "container", c.Name, "error", err)
		} else if err != nil {
			return notCreated("container "+c.Name, spec.Name, missing[i:], err)
		} else {
			created = append(created, c.Name)
		}
	}
	if len(created) > 0 {
		a.Logger().Info("containers created", "database", spec.Name, "containers", strings.Join(created, " "))
	}
	_, err = usable(ctx, a, db, others)
	return err
}

// createDatabase creates a database with its throughput; in a serverless account, which refuses throughput,
// without.
func createDatabase(ctx context.Context, a *cosmos.Account, spec DatabaseSpec) error {
	_, err := a.Client().CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: spec.Name}, spec.options())
	if isServerless(err) {
		_, err = a.Client().CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: spec.Name}, nil)
	}
	return err
}

// readDatabase returns a database, and reports whether it is missing.
func readDatabase(
	ctx context.Context, a *cosmos.Account, name string,
) (db *azcosmos.DatabaseClient, missing bool, err error) {
	if db, err = a.Client().NewDatabase(name); err != nil {
		return nil, false, err
	}
	_, err = db.Read(ctx, nil)
	if cosmos.HasStatus(err, http.StatusNotFound) {
		return db, true, nil
	}
	if err != nil {
		err = fmt.Errorf("read database %s: %w", name, cosmos.ErrorOf(err))
	}
	return db, false, err
}

// refusesFullText reports whether the creation of a container for full texts has failed because the account lacks the
// capability, or because this identity may not create containers.
func refusesFullText(err error) bool {
	return err != nil && (cosmos.HasStatus(err, http.StatusBadRequest) || cosmos.ErrorOf(err).ControlPlane())
}

// notCreated returns the error of a database or a container that could not be created.
func notCreated(what, database string, missing []ContainerSpec, err error) error {
	if !cosmos.ErrorOf(err).ControlPlane() {
		return fmt.Errorf("create %s: %w", what, cosmos.ErrorOf(err))
	}
	e := &MissingError{Database: database, Err: cosmos.ErrorOf(err)}
	for _, spec := range missing {
		e.Containers = append(e.Containers, spec.Name)
	}
	return e
}

// usable returns the missing containers, and a *ContainersError if differences of others break requests.
func usable(
	ctx context.Context, a *cosmos.Account, db *azcosmos.DatabaseClient, containers []ContainerSpec,
) (missing []ContainerSpec, err error) {
	all, missing, err := compareContainers(ctx, db, containers)
	if err != nil {
		return nil, err
	}
	warn(a, all)
	if broken := slices.DeleteFunc(all, func(d Difference) bool { return !d.Breaks }); len(broken) > 0 {
		return nil, &ContainersError{broken}
	}
	return missing, nil
}

// warn logs the differences that break nothing.
func warn(a *cosmos.Account, all []Difference) {
	for _, d := range all {
		switch {
		case d.Breaks:
		case d.Container == "":
			a.Logger().Warn("account differs from what requests need", "difference", d.Text)
		default:
			a.Logger().Warn("container differs from what requests need", "container", d.Container, "difference", d.Text)
		}
	}
}
