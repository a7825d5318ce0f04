package main

import (
	"fmt"

	"byline/graph/globalid"
)

func main() { fmt.Print(globalid.OfPost("nothing")) }
