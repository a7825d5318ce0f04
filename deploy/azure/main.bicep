@description('Name of the container app and of what belongs to it.')
param name string = 'byline'

@description('Region of all resources.')
param location string = resourceGroup().location

@description('Name of the Cosmos DB account, unique in Azure.')
param accountName string = 'byline-${uniqueString(resourceGroup().id)}'

@description('Autoscale throughput that the containers share, in RU/s, a multiple of 1000. 0 for a serverless account. Every deployment sets it.')
@minValue(0)
param maxThroughput int = 1000

@description('Whether the account, and with a subnet the replicas, are spread over availability zones. Set at creation; false in regions without zones.')
param zoneRedundant bool = true

@description('Region that the account also keeps the data in, reads in and fails over to, such as northeurope. Empty: none; a serverless account has one region.')
param secondRegion string = ''

@description('Id of a subnet, delegated to Microsoft.App/environments and with the service endpoint Microsoft.AzureCosmosDB, that the replicas run in. The account then accepts only this subnet and operatorNetwork. Empty: it accepts addresses of Azure and operatorNetwork.')
param subnetId string = ''

@description('Address, or network in CIDR notation, from which operators reach the account. Empty: none.')
param operatorNetwork string = ''

@description('Enabled, or Disabled if the replicas reach the account by a private endpoint in the network of subnetId.')
param publicNetworkAccess string = 'Enabled'

@description('Name of an Azure Container Registry in this resource group, from which the identity of the app pulls the image. Empty: the registry needs no sign-in.')
param registryName string = ''

@description('Name of the storage account of pictures, unique in Azure.')
param storageName string = 'byline${uniqueString(resourceGroup().id)}'

@description('Image of Byline.')
param image string

@description('OpenID Connect issuer of the bearer tokens.')
param authIssuer string

@description('Audience that the tokens must have.')
param authAudience string

@description('Role that may delete posts, comments and users of others. Empty: there are no moderators.')
param authModeratorRole string = ''

@description('Origins whose pages may use the server, separated by commas.')
param corsOrigins string = ''

@description('Address of the blog, such as https://blog.example, if the image has a front end at /site. Empty: the server has none.')
param siteUrl string = ''

@description('Networks of the proxies of Azure Container Apps, separated by commas.')
param proxyNetworks string = '100.64.0.0/10'

@description('Signs sessions, at least 32 characters. With the default, sessions begin again with each deployment.')
@secure()
@minLength(32)
param sessionKey string = '${newGuid()}${newGuid()}'

@description('Address that alerts are sent to.')
param alertEmail string

@description('Request units in an hour beyond which an alert is sent. The default is half of 1000 RU/s.')
param alertRequestUnits int = 1800000

@description('Gigabytes of data and indexes beyond which an alert is sent. A physical partition holds 50.')
param alertStorageGB int = 40

resource account 'Microsoft.DocumentDB/databaseAccounts@2025-10-15' = {
  name: accountName
  location: location
  kind: 'GlobalDocumentDB'
  properties: {
    databaseAccountOfferType: 'Standard'
    locations: concat([{ locationName: location, failoverPriority: 0, isZoneRedundant: zoneRedundant }], maxThroughput != 0 && secondRegion != '' ? [{ locationName: secondRegion, failoverPriority: 1, isZoneRedundant: zoneRedundant }] : [])
    enableAutomaticFailover: maxThroughput != 0
    enableBurstCapacity: maxThroughput != 0
    publicNetworkAccess: publicNetworkAccess
    ipRules: concat(subnetId == '' ? [{ ipAddressOrRange: '0.0.0.0' }] : [], operatorNetwork == '' ? [] : [{ ipAddressOrRange: operatorNetwork }])
    isVirtualNetworkFilterEnabled: subnetId != ''
    virtualNetworkRules: subnetId == '' ? [] : [{ id: subnetId }]
    capabilities: concat([{ name: 'EnableNoSQLFullTextSearch' }], maxThroughput == 0 ? [{ name: 'EnableServerless' }] : [])
    consistencyPolicy: {
      defaultConsistencyLevel: 'Session'
    }
    backupPolicy: {
      type: 'Continuous'
      continuousModeProperties: {
        tier: 'Continuous7Days'
      }
    }
    disableLocalAuth: true
    minimalTlsVersion: 'Tls12'
  }
}

resource database 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases@2025-10-15' = {
  parent: account
  name: 'blog'
  properties: {
    resource: {
      id: 'blog'
    }
    options: maxThroughput == 0 ? {} : { autoscaleSettings: { maxThroughput: maxThroughput } }
  }
}

resource users 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers@2025-10-15' = {
  parent: database
  name: 'users'
  properties: {
    resource: {
      id: 'users'
      partitionKey: {
        kind: 'Hash'
        paths: [
          '/userId'
        ]
        version: 2
      }
      defaultTtl: -1
      indexingPolicy: {
        automatic: true
        indexingMode: 'consistent'
        includedPaths: [
          {
            path: '/userId/?'
          }
          {
            path: '/type/?'
          }
          {
            path: '/ownerId/?'
          }
        ]
        excludedPaths: [
          {
            path: '/*'
          }
        ]
        compositeIndexes: [
          [
            {
              path: '/userId'
              order: 'ascending'
            }
            {
              path: '/type'
              order: 'ascending'
            }
            {
              path: '/creationDate'
              order: 'ascending'
            }
            {
              path: '/id'
              order: 'ascending'
            }
          ]
        ]
      }
    }
  }
}

resource posts 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers@2025-10-15' = {
  parent: database
  name: 'posts'
  properties: {
    resource: {
      id: 'posts'
      partitionKey: {
        kind: 'Hash'
        paths: [
          '/postId'
        ]
        version: 2
      }
      defaultTtl: -1
      indexingPolicy: {
        automatic: true
        indexingMode: 'consistent'
        includedPaths: [
          {
            path: '/postId/?'
          }
          {
            path: '/type/?'
          }
          {
            path: '/userId/?'
          }
          {
            path: '/filesOf/?'
          }
        ]
        excludedPaths: [
          {
            path: '/*'
          }
        ]
        compositeIndexes: [
          [
            {
              path: '/postId'
              order: 'ascending'
            }
            {
              path: '/type'
              order: 'ascending'
            }
            {
              path: '/creationDate'
              order: 'ascending'
            }
            {
              path: '/id'
              order: 'ascending'
            }
          ]
        ]
      }
    }
  }
}

resource feed 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers@2025-10-15' = {
  parent: database
  name: 'feed'
  properties: {
    resource: {
      id: 'feed'
      partitionKey: {
        kind: 'Hash'
        paths: [
          '/type'
        ]
        version: 2
      }
      defaultTtl: -1
      indexingPolicy: {
        automatic: true
        indexingMode: 'consistent'
        includedPaths: [
          {
            path: '/type/?'
          }
          {
            path: '/authorId/?'
          }
        ]
        excludedPaths: [
          {
            path: '/*'
          }
        ]
        compositeIndexes: [
          [
            {
              path: '/type'
              order: 'ascending'
            }
            {
              path: '/creationDate'
              order: 'ascending'
            }
            {
              path: '/id'
              order: 'ascending'
            }
          ]
          [
            {
              path: '/type'
              order: 'ascending'
            }
            {
              path: '/posts'
              order: 'ascending'
            }
            {
              path: '/id'
              order: 'ascending'
            }
          ]
        ]
      }
    }
  }
}

resource leases 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers@2025-10-15' = {
  parent: database
  name: 'leases'
  properties: {
    resource: {
      id: 'leases'
      partitionKey: {
        kind: 'Hash'
        paths: [
          '/id'
        ]
        version: 2
      }
      indexingPolicy: {
        automatic: true
        indexingMode: 'consistent'
        includedPaths: [
          {
            path: '/kind/?'
          }
        ]
        excludedPaths: [
          {
            path: '/*'
          }
        ]
      }
    }
  }
}

resource search 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers@2025-10-15' = {
  parent: database
  name: 'search'
  properties: {
    resource: {
      id: 'search'
      partitionKey: {
        kind: 'Hash'
        paths: [
          '/decade'
        ]
        version: 2
      }
      defaultTtl: -1
      indexingPolicy: {
        automatic: true
        indexingMode: 'consistent'
        includedPaths: [
          {
            path: '/decade/?'
          }
          {
            path: '/userId/?'
          }
          {
            path: '/tags/[]/?'
          }
        ]
        excludedPaths: [
          {
            path: '/*'
          }
        ]
        compositeIndexes: [
          [
            {
              path: '/decade'
              order: 'ascending'
            }
            {
              path: '/creationDate'
              order: 'ascending'
            }
            {
              path: '/id'
              order: 'ascending'
            }
          ]
        ]
        fullTextIndexes: [
          {
            path: '/text'
          }
        ]
      }
      fullTextPolicy: {
        defaultLanguage: 'en-US'
        fullTextPaths: [
          {
            path: '/text'
            language: 'en-US'
          }
        ]
      }
    }
  }
}

resource identity 'Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30' = {
  name: name
  location: location
  properties: {}
}

resource agent 'Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30' = {
  name: '${name}-metrics'
  location: location
  properties: {}
}

resource registry 'Microsoft.ContainerRegistry/registries@2023-07-01' existing = {
  name: registryName
}

resource pull 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (registryName != '') {
  name: guid(registry.id, identity.id, 'pull')
  scope: registry
  properties: {
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', '7f951dda-4ed3-4680-a7ca-43fe172d538d')
    principalId: identity.properties.principalId
    principalType: 'ServicePrincipal'
  }
}

resource contributor 'Microsoft.DocumentDB/databaseAccounts/sqlRoleAssignments@2025-10-15' = {
  parent: account
  name: guid(account.id, identity.id, 'contributor')
  properties: {
    roleDefinitionId: resourceId('Microsoft.DocumentDB/databaseAccounts/sqlRoleDefinitions', account.name, '00000000-0000-0000-0000-000000000002')
    principalId: identity.properties.principalId
    scope: '${account.id}/dbs/${database.name}'
  }
}

resource pictures 'Microsoft.Storage/storageAccounts@2024-01-01' = {
  name: storageName
  location: location
  kind: 'StorageV2'
  sku: {
    name: zoneRedundant ? 'Standard_ZRS' : 'Standard_LRS'
  }
  properties: {
    accessTier: 'Hot'
    allowBlobPublicAccess: true
    allowCrossTenantReplication: false
    allowSharedKeyAccess: false
    defaultToOAuthAuthentication: true
    minimumTlsVersion: 'TLS1_2'
    supportsHttpsTrafficOnly: true
  }
}

resource blobs 'Microsoft.Storage/storageAccounts/blobServices@2024-01-01' = {
  parent: pictures
  name: 'default'
  properties: {
    cors: {
      corsRules: siteUrl == '' && corsOrigins == '' ? [] : [{ allowedOrigins: concat(siteUrl == '' ? [] : [siteUrl], corsOrigins == '' ? [] : split(corsOrigins, ',')), allowedMethods: ['PUT'], allowedHeaders: ['content-type', 'if-none-match', 'x-ms-*'], exposedHeaders: [], maxAgeInSeconds: 3600 }]
    }
    deleteRetentionPolicy: {
      enabled: true
      days: 7
    }
  }
}

resource uploads 'Microsoft.Storage/storageAccounts/blobServices/containers@2024-01-01' = {
  parent: blobs
  name: 'uploads'
  properties: {
    publicAccess: 'None'
  }
}

resource files 'Microsoft.Storage/storageAccounts/blobServices/containers@2024-01-01' = {
  parent: blobs
  name: 'files'
  properties: {
    publicAccess: 'Blob'
  }
}

resource expiry 'Microsoft.Storage/storageAccounts/managementPolicies@2024-01-01' = {
  parent: pictures
  name: 'default'
  dependsOn: [
    blobs
  ]
  properties: {
    policy: {
      rules: [
        {
          name: 'uploads'
          type: 'Lifecycle'
          definition: {
            filters: {
              blobTypes: [
                'blockBlob'
              ]
              prefixMatch: [
                'uploads/'
              ]
            }
            actions: {
              baseBlob: {
                delete: {
                  daysAfterCreationGreaterThan: 1
                }
              }
            }
          }
        }
      ]
    }
  }
}

resource writer 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(pictures.id, identity.id, 'writer')
  scope: pictures
  properties: {
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', 'ba92f5b4-2d11-453d-a403-e96b0029c9fe')
    principalId: identity.properties.principalId
    principalType: 'ServicePrincipal'
  }
}

resource delegator 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(pictures.id, identity.id, 'delegator')
  scope: pictures
  properties: {
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', 'db58b8e5-c6ad-4a2a-8342-4190687cbf4a')
    principalId: identity.properties.principalId
    principalType: 'ServicePrincipal'
  }
}

resource workspace 'Microsoft.OperationalInsights/workspaces@2025-07-01' = {
  name: name
  location: location
  properties: {
    sku: {
      name: 'PerGB2018'
    }
    retentionInDays: 30
  }
}

resource metrics 'Microsoft.Monitor/accounts@2023-04-03' = {
  name: name
  location: location
  properties: {}
}

resource ingestion 'Microsoft.Insights/dataCollectionEndpoints@2022-06-01' = {
  name: name
  location: location
  kind: 'Linux'
  properties: {}
}

resource rule 'Microsoft.Insights/dataCollectionRules@2022-06-01' = {
  name: name
  location: location
  kind: 'Linux'
  properties: {
    dataCollectionEndpointId: ingestion.id
    dataSources: {
      prometheusForwarder: [
        {
          name: 'prometheus'
          streams: [
            'Microsoft-PrometheusMetrics'
          ]
        }
      ]
    }
    destinations: {
      monitoringAccounts: [
        {
          name: 'metrics'
          accountResourceId: metrics.id
        }
      ]
    }
    dataFlows: [
      {
        streams: [
          'Microsoft-PrometheusMetrics'
        ]
        destinations: [
          'metrics'
        ]
      }
    ]
  }
}

resource publisher 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(rule.id, agent.id, 'publisher')
  scope: rule
  properties: {
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', '3913510d-42f4-4e42-8a64-420c390055eb')
    principalId: agent.properties.principalId
    principalType: 'ServicePrincipal'
  }
}

resource apps 'Microsoft.App/managedEnvironments@2024-03-01' = {
  name: name
  location: location
  properties: {
    vnetConfiguration: subnetId == '' ? null : { infrastructureSubnetId: subnetId }
    zoneRedundant: zoneRedundant && subnetId != ''
    appLogsConfiguration: {
      destination: 'log-analytics'
      logAnalyticsConfiguration: {
        customerId: workspace.properties.customerId
        sharedKey: workspace.listKeys().primarySharedKey
      }
    }
  }
}

resource app 'Microsoft.App/containerApps@2024-03-01' = {
  name: name
  dependsOn: [
    contributor
    publisher
    pull
    writer
    users
    posts
    feed
    leases
    search
    uploads
    files
  ]
  location: location
  identity: {
    type: 'UserAssigned'
    userAssignedIdentities: {
      '${identity.id}': {}
      '${agent.id}': {}
    }
  }
  properties: {
    managedEnvironmentId: apps.id
    configuration: {
      activeRevisionsMode: 'Single'
      secrets: [
        {
          name: 'session-key'
          value: sessionKey
        }
        {
          name: 'prometheus'
          value: replace(replace(loadTextContent('prometheus.yml'), 'INGESTION', '${ingestion.properties.metricsIngestion.endpoint}/dataCollectionRules/${rule.properties.immutableId}/streams/Microsoft-PrometheusMetrics/api/v1/write?api-version=2023-04-24'), 'CLIENT_ID', agent.properties.clientId)
        }
      ]
      registries: registryName == '' ? [] : [{ server: '${registryName}.azurecr.io', identity: identity.id }]
      ingress: {
        external: true
        targetPort: 8080
        transport: 'auto'
        allowInsecure: false
      }
    }
    template: {
      terminationGracePeriodSeconds: 60
      containers: [
        {
          name: 'byline'
          image: image
          args: [
            'serve'
            '--listen'
            ':8080'
            '--drain'
            '20s'
          ]
          env: [
            {
              name: 'COSMOS_ENDPOINT'
              value: account.properties.documentEndpoint
            }
            {
              name: 'COSMOS_DATABASE'
              value: 'blog'
            }
            {
              name: 'COSMOS_REGIONS'
              value: maxThroughput != 0 && secondRegion != '' ? '${location},${secondRegion}' : ''
            }
            {
              name: 'BYLINE_FILES_ENDPOINT'
              value: pictures.properties.primaryEndpoints.blob
            }
            {
              name: 'AZURE_CLIENT_ID'
              value: identity.properties.clientId
            }
            {
              name: 'BYLINE_SESSION_KEY'
              secretRef: 'session-key'
            }
            {
              name: 'BYLINE_BEHIND_PROXY'
              value: proxyNetworks
            }
            {
              name: 'BYLINE_METRICS_LISTEN'
              value: 'localhost:9090'
            }
            {
              name: 'BYLINE_AUTH_ISSUER'
              value: authIssuer
            }
            {
              name: 'BYLINE_AUTH_AUDIENCE'
              value: authAudience
            }
            {
              name: 'BYLINE_AUTH_MODERATOR_ROLE'
              value: authModeratorRole
            }
            {
              name: 'BYLINE_CORS_ORIGINS'
              value: corsOrigins
            }
            {
              name: 'BYLINE_SITE'
              value: siteUrl == '' ? '' : '/site'
            }
            {
              name: 'BYLINE_SITE_URL'
              value: siteUrl
            }
            {
              name: 'BYLINE_LOG_FORMAT'
              value: 'json'
            }
            {
              name: 'BYLINE_BACKGROUND_RU'
              value: '100'
            }
            {
              name: 'GOGC'
              value: '400'
            }
            {
              name: 'GOMEMLIMIT'
              value: '1760MiB'
            }
          ]
          resources: {
            cpu: 1
            memory: '2Gi'
          }
          probes: [
            {
              type: 'Startup'
              httpGet: {
                path: '/healthz'
                port: 8080
              }
              periodSeconds: 5
              failureThreshold: 10
            }
            {
              type: 'Liveness'
              httpGet: {
                path: '/healthz'
                port: 8080
              }
              periodSeconds: 10
              failureThreshold: 3
            }
            {
              type: 'Readiness'
              httpGet: {
                path: '/readyz'
                port: 8080
              }
              periodSeconds: 5
              timeoutSeconds: 3
              failureThreshold: 3
            }
          ]
        }
        {
          name: 'prometheus'
          image: 'docker.io/prom/prometheus:v3.7.3'
          args: [
            '--agent'
            '--config.file=/etc/byline/prometheus.yml'
            '--storage.agent.path=/prometheus'
            '--web.listen-address=localhost:9099'
          ]
          resources: {
            cpu: json('0.25')
            memory: '0.5Gi'
          }
          volumeMounts: [
            {
              volumeName: 'prometheus'
              mountPath: '/etc/byline'
            }
          ]
        }
      ]
      volumes: [
        {
          name: 'prometheus'
          storageType: 'Secret'
          secrets: [
            {
              secretRef: 'prometheus'
              path: 'prometheus.yml'
            }
          ]
        }
      ]
      scale: {
        minReplicas: 2
        maxReplicas: 10
        rules: [
          {
            name: 'http'
            http: {
              metadata: {
                concurrentRequests: '100'
              }
            }
          }
        ]
      }
    }
  }
}

resource operators 'Microsoft.Insights/actionGroups@2023-01-01' = {
  name: name
  location: 'global'
  properties: {
    groupShortName: 'byline'
    enabled: true
    emailReceivers: [
      {
        name: 'operator'
        emailAddress: alertEmail
        useCommonAlertSchema: true
      }
    ]
  }
}

resource requestUnits 'Microsoft.Insights/metricAlerts@2018-03-01' = {
  name: '${name}-request-units'
  location: 'global'
  properties: {
    description: 'The blog has used more request units in an hour than planned.'
    severity: 2
    enabled: true
    scopes: [
      account.id
    ]
    evaluationFrequency: 'PT15M'
    windowSize: 'PT1H'
    criteria: {
      'odata.type': 'Microsoft.Azure.Monitor.SingleResourceMultipleMetricCriteria'
      allOf: [
        {
          criterionType: 'StaticThresholdCriterion'
          name: 'requestUnits'
          metricNamespace: 'Microsoft.DocumentDB/databaseAccounts'
          metricName: 'TotalRequestUnits'
          operator: 'GreaterThan'
          threshold: alertRequestUnits
          timeAggregation: 'Total'
        }
      ]
    }
    actions: [
      {
        actionGroupId: operators.id
      }
    ]
  }
}

resource throttled 'Microsoft.Insights/metricAlerts@2018-03-01' = {
  name: '${name}-throttled'
  location: 'global'
  properties: {
    description: 'Cosmos DB has refused more than 100 requests in five minutes with 429.'
    severity: 2
    enabled: true
    scopes: [
      account.id
    ]
    evaluationFrequency: 'PT1M'
    windowSize: 'PT5M'
    criteria: {
      'odata.type': 'Microsoft.Azure.Monitor.SingleResourceMultipleMetricCriteria'
      allOf: [
        {
          criterionType: 'StaticThresholdCriterion'
          name: 'throttled'
          metricNamespace: 'Microsoft.DocumentDB/databaseAccounts'
          metricName: 'TotalRequests'
          dimensions: [
            {
              name: 'StatusCode'
              operator: 'Include'
              values: [
                '429'
              ]
            }
          ]
          operator: 'GreaterThan'
          threshold: 100
          timeAggregation: 'Count'
        }
      ]
    }
    actions: [
      {
        actionGroupId: operators.id
      }
    ]
  }
}

resource busyPartition 'Microsoft.Insights/metricAlerts@2018-03-01' = {
  name: '${name}-busy-partition'
  location: 'global'
  properties: {
    description: 'A physical partition has used more than 90% of its request units for 15 minutes.'
    severity: 2
    enabled: true
    scopes: [
      account.id
    ]
    evaluationFrequency: 'PT5M'
    windowSize: 'PT15M'
    criteria: {
      'odata.type': 'Microsoft.Azure.Monitor.SingleResourceMultipleMetricCriteria'
      allOf: [
        {
          criterionType: 'StaticThresholdCriterion'
          name: 'normalizedRU'
          metricNamespace: 'Microsoft.DocumentDB/databaseAccounts'
          metricName: 'NormalizedRUConsumption'
          operator: 'GreaterThan'
          threshold: 90
          timeAggregation: 'Average'
        }
      ]
    }
    actions: [
      {
        actionGroupId: operators.id
      }
    ]
  }
}

resource unavailable 'Microsoft.Insights/metricAlerts@2018-03-01' = {
  name: '${name}-unavailable'
  location: 'global'
  properties: {
    description: 'The availability of Cosmos DB was below 99.9% in an hour.'
    severity: 1
    enabled: true
    scopes: [
      account.id
    ]
    evaluationFrequency: 'PT15M'
    windowSize: 'PT1H'
    criteria: {
      'odata.type': 'Microsoft.Azure.Monitor.SingleResourceMultipleMetricCriteria'
      allOf: [
        {
          criterionType: 'StaticThresholdCriterion'
          name: 'availability'
          metricNamespace: 'Microsoft.DocumentDB/databaseAccounts'
          metricName: 'ServiceAvailability'
          operator: 'LessThan'
          threshold: json('99.9')
          timeAggregation: 'Average'
        }
      ]
    }
    actions: [
      {
        actionGroupId: operators.id
      }
    ]
  }
}

resource storage 'Microsoft.Insights/metricAlerts@2018-03-01' = {
  name: '${name}-storage'
  location: 'global'
  properties: {
    description: 'Data and indexes have grown beyond what was planned.'
    severity: 3
    enabled: true
    scopes: [
      account.id
    ]
    evaluationFrequency: 'PT1H'
    windowSize: 'PT1H'
    criteria: {
      'odata.type': 'Microsoft.Azure.Monitor.SingleResourceMultipleMetricCriteria'
      allOf: [
        {
          criterionType: 'StaticThresholdCriterion'
          name: 'storage'
          metricNamespace: 'Microsoft.DocumentDB/databaseAccounts'
          metricName: 'DataUsage'
          operator: 'GreaterThan'
          threshold: alertStorageGB * 1073741824
          timeAggregation: 'Total'
        }
      ]
    }
    actions: [
      {
        actionGroupId: operators.id
      }
    ]
  }
}

resource diagnostics 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  name: name
  scope: account
  properties: {
    workspaceId: workspace.id
    logAnalyticsDestinationType: 'Dedicated'
    logs: [
      {
        category: 'ControlPlaneRequests'
        enabled: true
      }
      {
        category: 'PartitionKeyStatistics'
        enabled: true
      }
      {
        category: 'PartitionKeyRUConsumption'
        enabled: true
      }
    ]
  }
}

resource serverErrors 'Microsoft.Insights/metricAlerts@2018-03-01' = {
  name: '${name}-server-errors'
  location: 'global'
  properties: {
    description: 'More than 20 requests in five minutes got a 5xx response.'
    severity: 1
    enabled: true
    scopes: [
      app.id
    ]
    evaluationFrequency: 'PT1M'
    windowSize: 'PT5M'
    criteria: {
      'odata.type': 'Microsoft.Azure.Monitor.SingleResourceMultipleMetricCriteria'
      allOf: [
        {
          criterionType: 'StaticThresholdCriterion'
          name: 'serverErrors'
          metricNamespace: 'Microsoft.App/containerApps'
          metricName: 'Requests'
          dimensions: [
            {
              name: 'statusCodeCategory'
              operator: 'Include'
              values: [
                '5xx'
              ]
            }
          ]
          operator: 'GreaterThan'
          threshold: 20
          timeAggregation: 'Total'
        }
      ]
    }
    actions: [
      {
        actionGroupId: operators.id
      }
    ]
  }
}

output url string = 'https://${app.properties.configuration.ingress.fqdn}'
output prometheusEndpoint string = metrics.properties.metrics.prometheusQueryEndpoint
output cosmosEndpoint string = account.properties.documentEndpoint
output filesEndpoint string = pictures.properties.primaryEndpoints.blob
