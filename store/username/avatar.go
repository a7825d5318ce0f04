package username

// The server has a picture at AvatarPath for each username.
const (
	AvatarPrefix = "/avatars/"
	AvatarSuffix = ".svg"
)

// AvatarPath returns the path of the picture that the server makes for a username.
func AvatarPath(name string) string { return AvatarPrefix + name + AvatarSuffix }
