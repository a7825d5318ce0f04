package azure

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/appcontainers/armappcontainers/v3"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/authorization/armauthorization/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/cosmos/armcosmos/v3"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/monitor/armmonitor"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/msi/armmsi"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/operationalinsights/armoperationalinsights/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/storage/armstorage"
	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"byline/internal/servertest"
)

// printed returns the output of byline provision --template.
func printed(t *testing.T, format string) string {
	t.Helper()
	var out, log strings.Builder
	if status := servertest.Run(t.Context(), []string{"provision", "--template", format}, &out, &log,
		nil); status != 0 {
		t.Fatalf("exit status %d: %s", status, &log)
	}
	return out.String()
}

// TestTemplate_Containers: the template and its source have the containers exactly as the program prints them.
func TestTemplate_Containers(t *testing.T) {
	list := strings.TrimSuffix(strings.TrimPrefix(printed(t, "arm"), "[\n"), "\n]\n")
	list = regexp.MustCompile(`(?m)^`).ReplaceAllString(list, "  ") // in the list of the template, one level deeper
	if !strings.Contains(readFile(t, "azuredeploy.json"), "\n"+list+",\n") {
		t.Errorf("azuredeploy.json does not have the resources that byline provision --template arm prints:\n%s", list)
	}
	if bicep := printed(t, "bicep"); !strings.Contains(readFile(t, "main.bicep"), "\n\n"+bicep+"\n") {
		t.Errorf("main.bicep does not have the resources that byline provision --template bicep prints:\n%s", bicep)
	}
}

// schemas are the types that Microsoft generates from the specification of each API version.
var schemas = map[string]func() any{
	"Microsoft.DocumentDB/databaseAccounts@2025-10-15": func() any {
		return new(armcosmos.DatabaseAccountCreateUpdateParameters)
	},
	"Microsoft.DocumentDB/databaseAccounts/sqlDatabases@2025-10-15": func() any {
		return new(armcosmos.SQLDatabaseCreateUpdateParameters)
	},
	"Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers@2025-10-15": func() any {
		return new(armcosmos.SQLContainerCreateUpdateParameters)
	},
	"Microsoft.DocumentDB/databaseAccounts/sqlRoleAssignments@2025-10-15": func() any {
		return new(armcosmos.SQLRoleAssignmentCreateUpdateParameters)
	},
	"Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30": func() any { return new(armmsi.Identity) },
	"Microsoft.OperationalInsights/workspaces@2025-07-01": func() any {
		return new(armoperationalinsights.Workspace)
	},
	// of 2021-06-03-preview, its preview
	"Microsoft.Monitor/accounts@2023-04-03": func() any {
		return new(armmonitor.AzureMonitorWorkspaceResource)
	},
	"Microsoft.Insights/dataCollectionEndpoints@2022-06-01": func() any {
		return new(armmonitor.DataCollectionEndpointResource)
	},
	"Microsoft.Insights/dataCollectionRules@2022-06-01": func() any {
		return new(armmonitor.DataCollectionRuleResource)
	},
	"Microsoft.Storage/storageAccounts@2024-01-01": func() any {
		return new(armstorage.AccountCreateParameters)
	},
	"Microsoft.Storage/storageAccounts/blobServices@2024-01-01": func() any {
		return new(armstorage.BlobServiceProperties)
	},
	"Microsoft.Storage/storageAccounts/blobServices/containers@2024-01-01": func() any {
		return new(armstorage.BlobContainer)
	},
	"Microsoft.Storage/storageAccounts/managementPolicies@2024-01-01": func() any {
		return new(armstorage.ManagementPolicy)
	},
	"Microsoft.Authorization/roleAssignments@2022-04-01": func() any {
		return new(armauthorization.RoleAssignmentCreateParameters)
	},
	"Microsoft.App/managedEnvironments@2024-03-01": func() any {
		return new(armappcontainers.ManagedEnvironment)
	},
	"Microsoft.App/containerApps@2024-03-01": func() any {
		return new(armappcontainers.ContainerApp)
	},
	"Microsoft.Insights/actionGroups@2023-01-01": func() any {
		return new(armmonitor.ActionGroupResource)
	},
	"Microsoft.Insights/metricAlerts@2018-03-01": func() any {
		return new(armmonitor.MetricAlertResource)
	},
	"Microsoft.Insights/diagnosticSettings@2021-05-01-preview": func() any {
		return new(armmonitor.DiagnosticSettingsResource)
	},
}

// TestSchemas_VersionOfTypes: the client of each type's module requests the API version that schemas names.
func TestSchemas_VersionOfTypes(t *testing.T) {
	requests := regexp.MustCompile(`urlPath := "[^"]*(/providers/[^"]+)"|"api-version", "([^"]+)"`)
	ids := regexp.MustCompile(`/\{[^}]+\}|/default\b`)                      // the names of resources
	found := map[string]bool{"Microsoft.Monitor/accounts@2023-04-03": true} // the client requests its preview
	packages := map[string]bool{}
	for _, schema := range schemas {
		packages[reflect.TypeOf(schema()).Elem().PkgPath()] = true
	}
	for name := range packages {
		dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		clients, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "*_client.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, client := range clients {
			kind := ""
			for _, m := range requests.FindAllStringSubmatch(readFile(t, client), -1) {
				if m[1] != "" {
					kind = strings.TrimPrefix(ids.ReplaceAllString(m[1], ""), "/providers/")
				} else {
					found[kind+"@"+m[2]] = true
				}
			}
		}
	}
	for kind := range schemas {
		if !found[kind] {
			t.Errorf("%s: the client requests another version", kind)
		}
	}
}

// TestTemplate_Resources decodes each resource into Microsoft's type of its API version and back: a property that the
// version does not have would be lost, and one of another type refused. Enumerated values are among those
// that the version has.
func TestTemplate_Resources(t *testing.T) {
	for name, parameters := range map[string]map[string]any{
		"defaults":   nil,
		"serverless": {"maxThroughput": 0.0},
		"all given": {"secondRegion": "northeurope", "subnetId": "/subnets/byline", "operatorNetwork": "203.0.113.0/24",
			"publicNetworkAccess": "Disabled", "registryName": "registry", "zoneRedundant": false,
			"siteUrl": "https://blog.example", "corsOrigins": "https://app.example"},
	} {
		t.Run(name, func(t *testing.T) {
			a := readTemplate(t)
			a.set(parameters)
			a.evaluate()
			for _, r := range a.Resources {
				kind := fmt.Sprint(r["type"], "@", r["apiVersion"])
				if schemas[kind] == nil {
					t.Errorf("%s: the type of this version is unknown", kind)
					continue
				}
				// of the template language
				for _, key := range []string{"condition", "type", "apiVersion", "name", "scope", "dependsOn"} {
					delete(r, key)
				}
				into := schemas[kind]()
				text, err := json.Marshal(r)
				if err == nil {
					err = json.Unmarshal(text, into)
				}
				var back map[string]any
				if err == nil {
					text, err = json.Marshal(into)
				}
				if err == nil {
					err = json.Unmarshal(text, &back)
				}
				if err != nil {
					t.Errorf("%s: %v", kind, err)
				} else if diff := cmp.Diff(r, back); diff != "" {
					t.Errorf("%s: what the version does not have (-) or lacks (+):\n%s", kind, diff)
				}
				checkValues(t, kind, reflect.ValueOf(into))
			}
		})
	}
}

// set replaces the default values of parameters.
func (a *template) set(parameters map[string]any) {
	for name, value := range parameters {
		p, ok := a.Parameters[name]
		if !ok {
			a.t.Fatalf("there is no parameter %s", name)
		}
		p.DefaultValue = value
		a.Parameters[name] = p
	}
}

// TestTemplate_Parameters: what each parameter changes, and its default.
func TestTemplate_Parameters(t *testing.T) {
	const (
		account     = "Microsoft.DocumentDB/databaseAccounts"
		environment = "Microsoft.App/managedEnvironments"
		app         = "Microsoft.App/containerApps"
		pictures    = "Microsoft.Storage/storageAccounts"
	)
	type values map[string]any // by parameter
	region := func(name string, priority float64, zones bool) map[string]any {
		return map[string]any{"locationName": name, "failoverPriority": priority, "isZoneRedundant": zones}
	}
	const here = "resourceGroup.location"
	address := func(all ...string) []any {
		list := []any{}
		for _, a := range all {
			list = append(list, map[string]any{"ipAddressOrRange": a})
		}
		return list
	}
	for _, tt := range []struct {
		parameters values
		kind, path string // of the property
		want       any
	}{
		{nil, account, "publicNetworkAccess", "Enabled"},
		{values{"publicNetworkAccess": "Disabled"}, account, "publicNetworkAccess", "Disabled"},
		{nil, account, "ipRules", address("0.0.0.0")}, // of Azure
		{values{"operatorNetwork": "203.0.113.7"}, account, "ipRules", address("0.0.0.0", "203.0.113.7")},
		{values{"operatorNetwork": "203.0.113.7", "subnetId": "/subnet"}, account, "ipRules", address("203.0.113.7")},
		{nil, account, "virtualNetworkRules", []any{}},
		{nil, account, "isVirtualNetworkFilterEnabled", false},
		{values{"subnetId": "/subnet"}, account, "virtualNetworkRules", []any{map[string]any{"id": "/subnet"}}},
		{values{"subnetId": "/subnet"}, account, "isVirtualNetworkFilterEnabled", true},
		{nil, environment, "vnetConfiguration", nil},
		{values{"subnetId": "/subnet"}, environment, "vnetConfiguration",
			map[string]any{"infrastructureSubnetId": "/subnet"}},
		{nil, environment, "zoneRedundant", false}, // which needs a subnet
		{values{"subnetId": "/subnet"}, environment, "zoneRedundant", true},
		{values{"subnetId": "/subnet", "zoneRedundant": false}, environment, "zoneRedundant", false},
		{nil, account, "locations", []any{region(here, 0, true)}},
		{values{"zoneRedundant": false}, account, "locations", []any{region(here, 0, false)}},
		{values{"secondRegion": "northeurope"}, account, "locations",
			[]any{region(here, 0, true), region("northeurope", 1, true)}},
		{values{"secondRegion": "northeurope", "maxThroughput": 0.0}, account, "locations",
			[]any{region(here, 0, true)}},
		{nil, app, "template.containers.0.env.COSMOS_REGIONS", ""},
		{values{"secondRegion": "northeurope"}, app, "template.containers.0.env.COSMOS_REGIONS", here + ",northeurope"},
		{nil, app, "template.containers.0.env.BYLINE_SITE", ""},
		{values{"siteUrl": "https://blog.example"}, app, "template.containers.0.env.BYLINE_SITE", "/site"},
		{values{"siteUrl": "https://blog.example"}, app, "template.containers.0.env.BYLINE_SITE_URL", "https://blog.example"},
		{nil, app, "template.containers.0.env.BYLINE_FILES_ENDPOINT",
			"reference /providers/Microsoft.Storage/storageAccounts/bylineuniqueStringresourceGroup.id.primaryEndpoints.blob"},
		{nil, pictures + "/blobServices", "cors.corsRules", []any{}},
		{values{"siteUrl": "https://blog.example"}, pictures + "/blobServices", "cors.corsRules.0.allowedOrigins",
			[]any{"https://blog.example"}},
		{values{"siteUrl": "https://blog.example", "corsOrigins": "https://app.example,https://x.example"},
			pictures + "/blobServices", "cors.corsRules.0.allowedOrigins",
			[]any{"https://blog.example", "https://app.example", "https://x.example"}},
		{nil, account, "enableAutomaticFailover", true},
		{values{"maxThroughput": 0.0}, account, "enableAutomaticFailover", false},
		{nil, account, "enableBurstCapacity", true},
		{values{"maxThroughput": 0.0}, account, "enableBurstCapacity", false},
		{nil, app, "configuration.registries", []any{}},
		{values{"registryName": "registry"}, app, "configuration.registries",
			[]any{map[string]any{"server": "registry.azurecr.io",
				"identity": "/providers/Microsoft.ManagedIdentity/userAssignedIdentities/byline"}}},
	} {
		t.Run(fmt.Sprint(tt.path, " ", tt.parameters), func(t *testing.T) {
			a := readTemplate(t)
			a.set(tt.parameters)
			a.evaluate()
			i := slices.IndexFunc(a.Resources, func(r map[string]any) bool { return r["type"] == tt.kind })
			got := any(a.Resources[i]["properties"])
			for key := range strings.SplitSeq(tt.path, ".") {
				switch v := got.(type) {
				case map[string]any:
					got = v[key]
				case []any: // an element by its index, or the value of the one with a name
					if n, err := strconv.Atoi(key); err == nil {
						got = v[n]
					} else {
						n := slices.IndexFunc(v, func(e any) bool { return e.(map[string]any)["name"] == key })
						got = v[n].(map[string]any)["value"]
					}
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestTemplate_PullRole: the role to pull images is assigned only if a registry is named.
func TestTemplate_PullRole(t *testing.T) {
	for registry, want := range map[string]bool{"": false, "registry": true} {
		a := readTemplate(t)
		a.set(map[string]any{"registryName": registry})
		a.evaluate()
		i := slices.IndexFunc(a.Resources, func(r map[string]any) bool { return r["condition"] != nil })
		if got := a.Resources[i]["condition"]; got != want ||
			!strings.Contains(fmt.Sprint(a.Resources[i]["scope"]), "ContainerRegistry/registries/"+registry) {
			t.Errorf("registry %q: assigned %v in %v", registry, got, a.Resources[i]["scope"])
		}
	}
}

// TestTemplate_Alerts: the metrics of the account for which alerts are sent, and the logs that it keeps.
func TestTemplate_Alerts(t *testing.T) {
	a := readTemplate(t)
	a.evaluate()
	var got []string
	for _, r := range a.Resources {
		text, err := json.Marshal(r["properties"])
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`"(?:metricName|category)":"(\w+)"`).FindAllStringSubmatch(string(text),
			-1) {
			got = append(got, m[1])
		}
	}
	want := []string{"TotalRequestUnits", "TotalRequests", "NormalizedRUConsumption", "ServiceAvailability",
		"DataUsage",
		"ControlPlaneRequests", "PartitionKeyStatistics", "PartitionKeyRUConsumption", "Requests"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTemplate_Identities: the agent signs in with an identity that has no role in Cosmos DB.
func TestTemplate_Identities(t *testing.T) {
	a := readTemplate(t)
	a.evaluate()
	for _, r := range a.Resources {
		if r["type"] != "Microsoft.DocumentDB/databaseAccounts/sqlRoleAssignments" {
			continue
		}
		if id := fmt.Sprint(r["properties"].(map[string]any)["principalId"]); !strings.HasSuffix(id,
			"userAssignedIdentities/byline.principalId") {
			t.Errorf("%s has a role in Cosmos DB", id)
		}
	}
}

// TestTemplate_Pictures: of the storage account, the public reads the blobs of one container by their names, nobody has
// a key, and the app's identity writes and signs.
func TestTemplate_Pictures(t *testing.T) {
	a := readTemplate(t)
	a.evaluate()
	access, roles := map[string]any{}, map[string]bool{}
	for _, r := range a.Resources {
		properties := r["properties"].(map[string]any)
		switch r["type"] {
		case "Microsoft.Storage/storageAccounts":
			if properties["allowSharedKeyAccess"] != false || properties["minimumTlsVersion"] != "TLS1_2" {
				t.Errorf("the account: %v", properties)
			}
		case "Microsoft.Storage/storageAccounts/blobServices/containers":
			_, name, _ := strings.Cut(r["name"].(string), "/default/")
			access[name] = properties["publicAccess"]
		case "Microsoft.Authorization/roleAssignments":
			if !strings.Contains(fmt.Sprint(r["scope"]), "storageAccounts") {
				break
			}
			if !strings.HasSuffix(fmt.Sprint(properties["principalId"]), "userAssignedIdentities/byline.principalId") {
				t.Errorf("%v has a role in the account", properties["principalId"])
			}
			roles[path.Base(fmt.Sprint(properties["roleDefinitionId"]))] = true
		}
	}
	if diff := cmp.Diff(map[string]any{"uploads": "None", "files": "Blob"}, access); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]bool{
		"ba92f5b4-2d11-453d-a403-e96b0029c9fe": true, // Storage Blob Data Contributor
		"db58b8e5-c6ad-4a2a-8342-4190687cbf4a": true, // Storage Blob Delegator
	}, roles); diff != "" {
		t.Errorf("roles (-want +got):\n%s", diff)
	}
}

// enums are the values of the enumerated types that the template uses.
var enums = map[reflect.Type]any{}

func enum[T ~string](all []T) { enums[reflect.TypeFor[T]()] = all }

func init() {
	enum(armcosmos.PossibleDatabaseAccountKindValues())
	enum(armcosmos.PossibleDefaultConsistencyLevelValues())
	enum(armcosmos.PossibleBackupPolicyTypeValues())
	enum(armcosmos.PossibleContinuousTierValues())
	enum(armcosmos.PossibleMinimalTLSVersionValues())
	enum(armcosmos.PossiblePublicNetworkAccessValues())
	enum(armcosmos.PossiblePartitionKindValues())
	enum(armcosmos.PossibleIndexingModeValues())
	enum(armcosmos.PossibleCompositePathSortOrderValues())
	enum(armstorage.PossibleKindValues())
	enum(armstorage.PossibleSKUNameValues())
	enum(armstorage.PossibleAccessTierValues())
	enum(armstorage.PossibleMinimumTLSVersionValues())
	enum(armstorage.PossiblePublicAccessValues())
	enum(armstorage.PossibleRuleTypeValues())
	enum(armstorage.PossibleCorsRuleAllowedMethodsItemValues())
	enum(armappcontainers.PossibleManagedServiceIdentityTypeValues())
	enum(armappcontainers.PossibleActiveRevisionsModeValues())
	enum(armappcontainers.PossibleIngressTransportMethodValues())
	enum(armappcontainers.PossibleTypeValues())
	enum(armoperationalinsights.PossibleWorkspaceSKUNameEnumValues())
	enum(armappcontainers.PossibleStorageTypeValues())
	enum(armauthorization.PossiblePrincipalTypeValues())
	enum(armmonitor.PossibleKnownDataCollectionEndpointResourceKindValues())
	enum(armmonitor.PossibleKnownDataCollectionRuleResourceKindValues())
	enum(armmonitor.PossibleKnownPrometheusForwarderDataSourceStreamsValues())
	enum(append(armmonitor.PossibleKnownDataFlowStreamsValues(), "Microsoft-PrometheusMetrics")) // of the list above
	enum(armmonitor.PossibleOdatatypeValues())
	enum(armmonitor.PossibleCriterionTypeValues())
	enum(armmonitor.PossibleOperatorValues())
	enum(armmonitor.PossibleAggregationTypeEnumValues())
}

// checkValues fails the test if an enumerated value is unknown, or if AdditionalProperties has kept an undeclared
// property.
func checkValues(t *testing.T, path string, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			checkValues(t, path, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			checkValues(t, path, v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			if field.Name == "AdditionalProperties" && v.Field(i).Len() > 0 {
				t.Errorf("%s: unknown properties %v", path, v.Field(i))
			}
			if field.IsExported() {
				checkValues(t, path+"."+field.Name, v.Field(i))
			}
		}
	case reflect.String:
		if v.Type() == reflect.TypeFor[string]() {
			return
		}
		all := reflect.ValueOf(enums[v.Type()])
		if !all.IsValid() {
			t.Errorf("%s: the values of %s are not listed in this test", path, v.Type())
			return
		}
		for i := range all.Len() {
			if all.Index(i).String() == v.String() {
				return
			}
		}
		t.Errorf("%s: %q is not one of %v", path, v, all)
	}
}

// TestTemplate_Agent: the configuration of the agent is prometheus.yml, and it scrapes where byline serves metrics.
func TestTemplate_Agent(t *testing.T) {
	a, file := readTemplate(t), readFile(t, "prometheus.yml")
	if text, err := json.Marshal(file); err != nil ||
		!strings.Contains(readFile(t, "azuredeploy.json"), "'"+strings.Trim(string(text), `"`)+"'") {
		t.Errorf("azuredeploy.json does not have prometheus.yml: %v", err)
	}
	app := readApp(t, a)
	containers := app.Properties.Template.Containers
	metrics := slices.IndexFunc(containers[0].Env, func(v *armappcontainers.EnvironmentVar) bool {
		return *v.Name == "BYLINE_METRICS_LISTEN"
	})
	secret := slices.IndexFunc(app.Properties.Configuration.Secrets, func(s *armappcontainers.Secret) bool {
		return *s.Name == "prometheus"
	})
	if metrics < 0 || secret < 0 {
		t.Fatal("no address of metrics, or no configuration")
	}
	var config struct {
		ScrapeConfigs []struct {
			StaticConfigs []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
		RemoteWrite []struct {
			URL     string
			AzureAD struct {
				ManagedIdentity struct {
					ClientID string `yaml:"client_id"`
				} `yaml:"managed_identity"`
			} `yaml:"azuread"`
		} `yaml:"remote_write"`
	}
	if err := yaml.Unmarshal([]byte(*app.Properties.Configuration.Secrets[secret].Value), &config); err != nil {
		t.Fatal(err)
	}
	if target := config.ScrapeConfigs[0].StaticConfigs[0].Targets[0]; target != *containers[0].Env[metrics].Value {
		t.Errorf("the agent scrapes %s, and byline serves metrics on %s", target, *containers[0].Env[metrics].Value)
	}
	to := config.RemoteWrite[0]
	if !strings.Contains(to.URL, ".metricsIngestion.endpoint/dataCollectionRules/reference") ||
		!strings.Contains(to.URL, ".immutableId/streams/Microsoft-PrometheusMetrics/") {
		t.Errorf("the agent writes to %s", to.URL)
	}
	if id := to.AzureAD.ManagedIdentity.ClientID; !strings.Contains(id,
		"userAssignedIdentities/byline-metrics.clientId") {
		t.Errorf("the agent signs in as %s", id)
	}
}

// TestTemplate_ReadinessProbe: the probe waits longer than the two seconds that /readyz may take.
func TestTemplate_ReadinessProbe(t *testing.T) {
	probes := readApp(t, readTemplate(t)).Properties.Template.Containers[0].Probes
	i := slices.IndexFunc(probes, func(p *armappcontainers.ContainerAppProbe) bool {
		return *p.Type == armappcontainers.TypeReadiness
	})
	if i < 0 {
		t.Fatal("no readiness probe")
	}
	if p := probes[i]; *p.HTTPGet.Path != "/readyz" || p.TimeoutSeconds == nil || *p.TimeoutSeconds != 3 {
		text, _ := json.Marshal(p)
		t.Errorf("the probe does not wait three seconds for /readyz: %s", text)
	}
}

// readApp evaluates the template and returns its app.
func readApp(t *testing.T, a *template) (app armappcontainers.ContainerApp) {
	t.Helper()
	a.evaluate()
	i := slices.IndexFunc(a.Resources, func(r map[string]any) bool {
		return r["type"] == "Microsoft.App/containerApps"
	})
	if i < 0 {
		t.Fatal("the template has no app")
	}
	text, err := json.Marshal(a.Resources[i])
	if err == nil {
		err = json.Unmarshal(text, &app)
	}
	if err != nil {
		t.Fatal(err)
	}
	return app
}
