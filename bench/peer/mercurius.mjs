// blog.mjs on Node, Fastify, Mercurius and pg.
// PGHOST, PGPORT, PGUSER and PGDATABASE say where the database is; PORT, where to listen.
import Fastify from 'fastify'
import mercurius from 'mercurius'
import pg from 'pg'
import { resolvers, subject, typeDefs } from './blog.mjs'

// What PostgreSQL sends becomes what the answer holds without a Date between them:
// '2026-03-01 09:30:00.1+00' is '2026-03-01T09:30:00.100Z'. A bigint stays a string.
pg.types.setTypeParser(pg.types.builtins.TIMESTAMPTZ, text => {
  const time = text.slice(11, -3)
  return text.slice(0, 10) + 'T' + (time.length === 8 ? time + '.000' : time.padEnd(12, '0')) + 'Z'
})

const pool = new pg.Pool({ max: 16, min: 16, idleTimeoutMillis: 0 })

let statements = 0
function statement(text) {
  const name = 's' + ++statements
  return async (...values) => (await pool.query({ name, text, values })).rows
}

const app = Fastify({ logger: false })
app.register(mercurius, {
  schema: typeDefs,
  resolvers: resolvers(statement),
  jit: 1,
  compilerOptions: { disableLeafSerialization: true, disablingCapturingStackErrors: true },
  context: request => ({ subject: subject(request.headers.authorization) })
})

await app.listen({ host: '127.0.0.1', port: Number(process.env.PORT) })
console.log('listening on', process.env.PORT)
process.once('SIGTERM', () => app.close().then(() => pool.end()))
