package provision

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// armVersion is the version of Microsoft.DocumentDB's API in templates.
const armVersion = "2025-10-15"

// Template returns the definitions of a database and its containers for Azure's tools: the resources of an
// ARM template (arm), in Bicep (bicep), or commands of the Azure CLI (az). It fails for other formats.
func (s DatabaseSpec) Template(format string) (string, error) {
	switch format {
	case "arm":
		return s.arm()
	case "bicep":
		return s.bicep()
	case "az":
		return s.cli()
	}
	return "", errors.New("there are arm, bicep and az")
}

// armResource is a resource of an Azure Resource Manager template.
type armResource struct {
	Type       string        `json:"type"`
	APIVersion string        `json:"apiVersion"`
	Name       string        `json:"name"`
	DependsOn  []string      `json:"dependsOn"`
	Properties armProperties `json:"properties"`
}

type armProperties struct {
	Resource any    `json:"resource"`
	Options  string `json:"options,omitempty"`
}

// arm returns the resources of an Azure Resource Manager template: a JSON array. The template declares
// the parameters accountName and maxThroughput, 0 for a serverless account, and the account.
func (s DatabaseSpec) arm() (string, error) {
	const account = "Microsoft.DocumentDB/databaseAccounts"
	const database = account + "/sqlDatabases"
	name := strings.ReplaceAll(s.Name, "'", "''")
	all := []armResource{{database, armVersion, fmt.Sprintf("[concat(parameters('accountName'), '/%s')]", name),
		[]string{fmt.Sprintf("[resourceId('%s', parameters('accountName'))]", account)},
		armProperties{map[string]string{"id": s.Name},
			"[if(equals(parameters('maxThroughput'), 0), createObject(), createObject('autoscaleSettings', " +
				"createObject('maxThroughput', parameters('maxThroughput'))))]"}}}
	for _, c := range s.Containers {
		all = append(all, armResource{database + "/containers", armVersion,
			fmt.Sprintf("[concat(parameters('accountName'), '/%s/%s')]", name, c.Name),
			[]string{fmt.Sprintf("[resourceId('%s', parameters('accountName'), '%s')]", database, name)},
			armProperties{Resource: c.properties()}})
	}
	return indented(all)
}

func indented(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return b.String(), err
}

// bicep returns the resources in Bicep. The file declares the parameter maxThroughput, 0 for a
// serverless account, and the resource account.
func (s DatabaseSpec) bicep() (string, error) {
	var b strings.Builder
	resource := func(symbol, kind, parent, name string, properties any, options string) error {
		text, err := bicepValue(properties, "    ")
		fmt.Fprintf(&b, "resource %s 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases%s@%s' = {\n"+
			"  parent: %s\n  name: %s\n  properties: {\n    resource: %s\n%s  }\n}\n",
			symbol, kind, armVersion, parent, bicepText(name), text, options)
		return err
	}
	err := resource("database", "", "account", s.Name, map[string]string{"id": s.Name},
		"    options: maxThroughput == 0 ? {} : { autoscaleSettings: { maxThroughput: maxThroughput } }\n")
	for _, c := range s.Containers {
		if err == nil {
			b.WriteByte('\n')
			err = resource(c.Name, "/containers", "database", c.Name, c.properties(), "")
		}
	}
	return b.String(), err
}

// bicepValue returns a JSON value in Bicep, for a line that begins with indent.
func bicepValue(v any, indent string) (string, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var b strings.Builder
	err = writeBicep(&b, d, indent)
	return b.String(), err
}

func writeBicep(b *strings.Builder, d *json.Decoder, indent string) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	open, ok := t.(json.Delim)
	if !ok {
		if s, ok := t.(string); ok {
			t = bicepText(s)
		}
		fmt.Fprint(b, t)
		return nil
	}
	fmt.Fprintln(b, open)
	for d.More() {
		b.WriteString(indent + "  ")
		if open == '{' {
			key, err := d.Token()
			if err != nil {
				return err
			}
			fmt.Fprintf(b, "%s: ", key)
		}
		if err := writeBicep(b, d, indent+"  "); err != nil {
			return err
		}
		b.WriteByte('\n')
	}
	end, err := d.Token()
	fmt.Fprint(b, indent, end)
	return err
}

func bicepText(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, `${`, `\${`).Replace(s) + "'"
}

// cli returns commands of the Azure CLI, for a shell with the variables ACCOUNT and RESOURCE_GROUP.
func (s DatabaseSpec) cli() (string, error) {
	const on = ` --account-name "${ACCOUNT:?}" --resource-group "${RESOURCE_GROUP:?}"`
	var b strings.Builder
	fmt.Fprintf(&b, "az cosmosdb sql database create%s --name %s", on, shellWord(s.Name))
	if s.MaxThroughput > 0 {
		fmt.Fprintf(&b, " --max-throughput %d", s.MaxThroughput)
	}
	b.WriteByte('\n')
	for _, c := range s.Containers {
		p := c.properties()
		policy, err := json.Marshal(p.IndexingPolicy)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b,
			"az cosmosdb sql container create%s --database-name %s --name %s --partition-key-path %s "+
				"--partition-key-version %d --idx %s",
			on, shellWord(s.Name), shellWord(c.Name), c.PartitionKey, p.PartitionKeyDefinition.Version,
			shellWord(string(policy)))
		if p.DefaultTimeToLive != nil {
			fmt.Fprintf(&b, " --ttl %d", *p.DefaultTimeToLive)
		}
		if p.FullTextPolicy != nil {
			policy, err := json.Marshal(p.FullTextPolicy)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&b, " --full-text-policy %s", shellWord(string(policy)))
		}
		b.WriteByte('\n')
	}
	return b.String(), nil
}

// shellWord quotes a word for a shell.
func shellWord(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
