package index

import (
	"reflect"

	"byline/store/emulator/internal/apierror"
)

type UniqueKeys struct {
	UniqueKeys []struct {
		Paths []string `json:"paths"`
	} `json:"uniqueKeys"`
}

// Same reports whether a policy of a client is that of the container. A missing one is.
func (u *UniqueKeys) Same(was *UniqueKeys) bool {
	if u == nil || was == nil {
		return u == nil || len(u.UniqueKeys) == 0
	}
	return reflect.DeepEqual(u, was)
}

// Limits of the service on a unique key policy.
const (
	maxUniqueKeys     = 10
	maxUniqueKeyPaths = 16
)

// Check refuses empty unique keys, unique keys on the whole item, and too many of them.
func (u *UniqueKeys) Check() error {
	if u == nil {
		return nil
	}
	if len(u.UniqueKeys) > maxUniqueKeys {
		return apierror.BadRequest("A container can't have more than %d unique keys.", maxUniqueKeys)
	}
	for _, k := range u.UniqueKeys {
		if len(k.Paths) == 0 || len(k.Paths) > maxUniqueKeyPaths {
			return apierror.BadRequest("A unique key must have from 1 to %d paths.", maxUniqueKeyPaths)
		}
		for _, s := range k.Paths {
			if path, err := ParsePath(s); err != nil || len(path) == 0 {
				return apierror.BadRequest("The unique key path '%s' is invalid.", s)
			}
		}
	}
	return nil
}
