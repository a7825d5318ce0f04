package playground

// cdn is where GraphiQL is loaded from.
type cdn struct {
	URL       string            `json:"url"`       // of the files
	Integrity map[string]string `json:"integrity"` // the hashes of the files, by their paths
}

// graphiQL is the package @graphql-yoga/graphiql 4.5.0 from npm: GraphiQL 5.2.0 with its explorer plugin, in a single
// script. jsDelivr serves the files of a package unchanged, so these are the hashes of the published files:
//
//	openssl dgst -sha384 -binary FILE | base64
var graphiQL = cdn{
	URL: "https://cdn.jsdelivr.net/npm/@graphql-yoga/graphiql@4.5.0/",
	Integrity: map[string]string{
		"package.json":                                    "sha384-8/LymIUGmBrL0M4jrqmGRYv2f+j00lUkHTZn+KriNOVSU3HDNAR6db3CM/CDvDUt",
		"dist/graphiql.css":                               "sha384-Xp/7OLcB0QxJbd7DgYyj2SlhlXcC3CfoZwV0noESXagTOy5SgLd0fvxFirGgDlSe",
		"dist/yoga-graphiql.umd.js":                       "sha384-/t4fhWxYGaViR67PMxhDacRXghTA/X82HkhLqo1g3mf/YS3U8WQRV4mDYOi+WAwY",
		"dist/monacoeditorwork/editor.worker.bundle.js":   "sha384-pE2N9HoATIHFXyG+qNs0KfCQYNupaLtNYdrU+207YoYufZkQXiNrxwhjD19bwavY",
		"dist/monacoeditorwork/graphql.worker..bundle.js": "sha384-PFVHFyE1C49Jx+IQWrSNUWIDw1b3aaYAoDYJip6kaM+AqrNwvYabc3Vn5oR7bJ5d",
		"dist/monacoeditorwork/json.worker.bundle.js":     "sha384-DWcw3li66h7qm7RgvaRzwTHxNSsmDbhaapFdWTO7qtVLuSCrGXwp0Kg2QIutW7Iu",
	},
}

// policy is the Content-Security-Policy of the page: its own scripts and requests to this server, and the files
// of the CDN. Both editors style their elements by scripts.
func policy(withCDN bool) string {
	source, workers := "", ""
	if withCDN {
		source, workers = " "+graphiQL.URL, "; worker-src blob:"
	}
	return "default-src 'none'; script-src 'self'" + source + "; style-src 'self' 'unsafe-inline'" + source +
		"; connect-src 'self'" + source + workers +
		"; img-src 'self' data:; font-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}
