// blog.mjs on Bun, GraphQL Yoga, graphql-jit and Bun.sql.
// PGHOST, PGPORT, PGUSER and PGDATABASE say where the database is; PORT, where to listen.
import { useGraphQlJit } from '@envelop/graphql-jit'
import { SQL } from 'bun'
import { createSchema, createYoga } from 'graphql-yoga'
import { resolvers, subject, typeDefs } from './blog.mjs'

const { PGHOST, PGPORT, PGUSER, PGDATABASE, PORT } = process.env
const sql = new SQL({ adapter: 'postgres', path: `${PGHOST}/.s.PGSQL.${PGPORT}`, username: PGUSER, database: PGDATABASE, max: 16, idleTimeout: 0 })

const statement = text => (...values) => sql.unsafe(text, values)

const yoga = createYoga({
  schema: createSchema({ typeDefs, resolvers: resolvers(statement) }),
  plugins: [useGraphQlJit({ disableLeafSerialization: true, disablingCapturingStackErrors: true })],
  context: ({ request }) => ({ subject: subject(request.headers.get('authorization') ?? undefined) }),
  logging: false,
  graphiql: false,
  landingPage: false,
  maskedErrors: false,
  multipart: false,
  cors: false
})

const server = Bun.serve({ hostname: '127.0.0.1', port: Number(PORT), fetch: yoga.fetch })
console.log('listening on', PORT)
process.once('SIGTERM', () => server.stop().then(() => sql.close()))
