package stored

import "byline/store/cosmos"

// SetText sets a property that differs from text: it removes the property if text is "".
func SetText(p *cosmos.Patch, path, text string) {
	if text == "" {
		p.Remove(path)
	} else {
		p.Set(path, text)
	}
}
