// Package azure has the template for Azure Container Apps, azuredeploy.json, and its Bicep source,
// main.bicep. It has no code of its own: its tests check both.
package azure
