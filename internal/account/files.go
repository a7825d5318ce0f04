package account

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"

	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"byline/store/files"
)

// FilesFlags say where pictures are.
type FilesFlags struct {
	FilesEndpoint string `name:"files-endpoint" env:"BYLINE_FILES_ENDPOINT" placeholder:"URL" help:"Azure storage account of the pictures, such as https://ACCOUNT.blob.core.windows.net, with DefaultAzureCredential. Without one they are in the directory of the embedded engine's data; beside a Cosmos DB account there are no uploads."`
	FilesURL      string `name:"files-url" env:"BYLINE_FILES_URL" placeholder:"URL" help:"Public address of the pictures with --files-endpoint. Default: that of their container, URL/files."`
	FilesQuota    int64  `name:"files-quota" default:"500" env:"BYLINE_FILES_QUOTA" help:"Megabytes that the pictures of a user can have."`
}

// filesFolder is the folder of pictures, beside the files of the embedded engine.
const filesFolder = "pictures"

// maxFilesQuota is a terabyte, in megabytes.
const maxFilesQuota = 1_000_000

// CheckFiles returns an error that names the invalid flag.
func (c FilesFlags) CheckFiles() error {
	if c.FilesQuota < 1 || c.FilesQuota > maxFilesQuota {
		return fmt.Errorf("--files-quota %d: there can be 1 to %d megabytes", c.FilesQuota, maxFilesQuota)
	}
	if c.FilesURL != "" && c.FilesEndpoint == "" {
		return errors.New("--files-url needs --files-endpoint: other pictures are at this server's address")
	}
	for flag, value := range map[string]string{"--files-endpoint": c.FilesEndpoint, "--files-url": c.FilesURL} {
		if value == "" {
			continue
		}
		// the error does not quote it: it may be a connection string, or have a signature
		u, err := url.Parse(value)
		if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return fmt.Errorf("%s is not an https address without a query", flag)
		}
	}
	return nil
}

// OpenFiles opens the pictures of the blog that on names, whose embedded engine must be open: its lock protects their
// folder. It returns nil if there is no place for pictures, and makes no request. The flags set the URL and Quota of o.
func (c FilesFlags) OpenFiles(on Flags, o files.Options) (*files.Files, error) {
	o.URL, o.Quota = c.FilesURL, c.FilesQuota*1_000_000
	switch {
	case c.FilesEndpoint != "":
		identity, err := azidentity.NewDefaultAzureCredential(nil)
		if err != nil {
			return nil, fmt.Errorf("--files-endpoint: %w", err)
		}
		return files.NewBlobs(c.FilesEndpoint, identity, o)
	case on.Embedded():
		return files.NewFolder(filepath.Join(on.Data, filesFolder), o)
	}
	return nil, nil
}
