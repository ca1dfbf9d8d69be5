// Prints records of @kafkajs/confluent-schema-registry, a line each, for other_clients.json:
//   npm install @kafkajs/confluent-schema-registry && node kafkajs.js
const http = require('http')
const { SchemaRegistry, SchemaType } = require('@kafkajs/confluent-schema-registry')
const { version } = require('@kafkajs/confluent-schema-registry/package.json')
let id = 0
const server = http.createServer((request, response) => {
  request.resume().on('end', () => {
    response.setHeader('Content-Type', 'application/json')
    if (request.method === 'GET') { response.statusCode = 404; response.end('{"error_code":40401,"message":"none"}') }
    else response.end(JSON.stringify(request.method === 'POST' ? { id: ++id + 300 } : { compatibility: 'BACKWARD' }))
  })
}).listen(0, '127.0.0.1', async () => {
  const registry = new SchemaRegistry({ host: `http://127.0.0.1:${server.address().port}` })
  const schemas = [
    [SchemaType.AVRO, JSON.stringify({ type: 'record', name: 'R', namespace: 'n', fields: [{ name: 'a', type: 'int' }] })],
    [SchemaType.JSON, JSON.stringify({ type: 'object', properties: { a: { type: 'integer' } } })],
    [SchemaType.PROTOBUF, 'syntax = "proto3"; package n; message R { int32 a = 1; }'],
  ]
  for (const [type, schema] of schemas) {
    const registered = await registry.register({ type, schema }, { subject: `n.${type}` })
    const value = await registry.encode(registered.id, { a: 5 })
    console.log(JSON.stringify({ by: `kafkajs ${version} ${type}`, form: 'confluent', name: String(registered.id),
      field: 'value', bytes: value.toString('hex'), headers: [] }))
  }
  server.close()
})
