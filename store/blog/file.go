package blog

import (
	"regexp"
	"slices"
	"strings"
)

// FileID is the id of a picture, and its name: its owner's id, 80 random bits, its size, and an extension for its type,
// as in "USER.RANDOMSIZE.png". So an id tells without a read who may use the file and how much it takes.
type FileID string

// FilePrefix begins the paths of files on the server.
const FilePrefix = "/files/"

// MaxFileSize is the most bytes of a file.
const MaxFileSize = 10_000_000

const (
	fileRandom = 16 // characters of 5 bits
	fileSize   = 5
)

// fileTypes are the content types of files, by extension.
var fileTypes = map[string]string{"png": "image/png", "jpg": "image/jpeg", "gif": "image/gif", "webp": "image/webp",
	"avif": "image/avif"}

// NewFileID returns the id of a new file, given random bits. ok is false if files cannot have the content type or the
// size, or the owner's id is invalid.
func NewFileID(owner, contentType string, size int64, random [10]byte) (id FileID, ok bool) {
	for extension, typ := range fileTypes {
		if typ == contentType && ValidID(owner) && 0 < size && size <= MaxFileSize {
			digits := make([]byte, fileSize)
			for i := range digits {
				digits[fileSize-1-i] = idAlphabet[size>>(5*i)&31]
			}
			return FileID(owner + "." + idEncoding.EncodeToString(random[:]) + string(digits) + "." + extension), true
		}
	}
	return "", false
}

// Valid reports whether an id has the form of those of NewFileID. The other methods are for valid ids.
func (id FileID) Valid() bool {
	return len(id) < 128 && wholeFileID.MatchString(string(id)) && id.Size() <= MaxFileSize
}

// Owner returns the id of the user who uploaded the file.
func (id FileID) Owner() string {
	owner, _, _ := strings.Cut(string(id), ".")
	return owner
}

// Type returns the content type, which has been declared for the upload.
func (id FileID) Type() string {
	return fileTypes[string(id[strings.LastIndexByte(string(id), '.')+1:])]
}

// Size returns the number of bytes, which has been declared for the upload.
func (id FileID) Size() (size int64) {
	_, name, _ := strings.Cut(string(id), ".")
	for _, digit := range []byte(name[fileRandom : fileRandom+fileSize]) {
		size = size<<5 | int64(idDigits[digit])
	}
	return size
}

// Path returns the path of the file on the server.
func (id FileID) Path() string { return FilePrefix + string(id) }

// FileOf returns the file at an address; ok is false if the address is not a path of Path.
func FileOf(address string) (id FileID, ok bool) {
	name, ok := strings.CutPrefix(address, FilePrefix)
	id = FileID(name)
	return id, ok && id.Valid()
}

const fileIDPattern = `[A-Za-z0-9_-]{1,64}\.[` + idAlphabet + `]{21}\.(?:png|jpg|gif|webp|avif)`

var (
	wholeFileID = regexp.MustCompile(`^` + fileIDPattern + `$`)
	// filePath does not match within an absolute URL.
	filePath = regexp.MustCompile(`(?:^|[\s(<"'=])(` + regexp.QuoteMeta(FilePrefix) + fileIDPattern + `)`)
)

// FilesIn returns the ids of the files whose paths a text has, each once.
func FilesIn(text string) (ids []string) {
	if !strings.Contains(text, FilePrefix) {
		return nil
	}
	for _, match := range filePath.FindAllStringSubmatch(text, -1) {
		if id, ok := FileOf(match[1]); ok && !slices.Contains(ids, string(id)) {
			ids = append(ids, string(id))
		}
	}
	return ids
}
