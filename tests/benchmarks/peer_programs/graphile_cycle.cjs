// graphile-worker: one runner, jobs one by one; with BATCH it takes and ends so many at a time (its local queue).
'use strict'
const { run, makeWorkerUtils, Logger } = require('graphile-worker')
const [url, jobs, concurrency, batch] = [process.argv[2], ...process.argv.slice(3).map(Number)]

async function main () {
  const logger = new Logger(() => () => {})
  const utils = await makeWorkerUtils({ connectionString: url, logger })
  await utils.migrate()
  const begin = process.hrtime.bigint()
  for (let first = 0; first < jobs; first += 1000) {
    const some = Array.from({ length: Math.min(1000, jobs - first) }, (_, n) => ({ identifier: 'noop', payload: { n: first + n } }))
    await utils.addJobs(some)
  }
  console.log('ready', Number(process.hrtime.bigint() - begin) / 1e9)
  await new Promise(resolve => process.stdin.once('data', resolve))
  let count = 0
  let ended
  const all = new Promise(resolve => { ended = resolve })
  const preset = { worker: { connectionString: url, concurrentJobs: concurrency, maxPoolSize: concurrency + 2 } }
  if (batch) Object.assign(preset.worker, { localQueue: { size: batch }, completeJobBatchDelay: 0, failJobBatchDelay: 0 })
  const runner = await run({
    preset,
    logger,
    noHandleSignals: true,
    taskList: { noop: async () => { if (++count === jobs) ended() } }
  })
  await all
  await runner.stop()
  console.log('done')
  process.exit(0)
}

main()
