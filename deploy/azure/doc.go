// Package azure has the template for Azure Container Apps, azuredeploy.json, its Bicep source, main.bicep, and
// prometheus.yml, the configuration of the agent beside each instance. It contains no code, only tests of these files.
package azure
