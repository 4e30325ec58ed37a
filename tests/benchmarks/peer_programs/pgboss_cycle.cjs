// pg-boss: CONCURRENCY loops in one process, each fetches and completes one job at a time.
'use strict'
const boss = require('pg-boss')
const major = Number(require('pg-boss/package.json').version.split('.')[0])
const PgBoss = boss.PgBoss || boss.default || boss
const [url, jobs, concurrency] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])]

async function main () {
  const queue = new PgBoss({ connectionString: url, max: concurrency + 2, supervise: false, schedule: false })
  queue.on('error', error => { throw error })
  await queue.start()
  await queue.createQueue('noop')
  const begin = process.hrtime.bigint()
  for (let first = 0; first < jobs; first += 1000) {
    const some = Array.from({ length: Math.min(1000, jobs - first) }, (_, n) => ({ name: 'noop', data: { n: first + n } }))
    if (major < 11) await queue.insert(some)
    else await queue.insert('noop', some)
  }
  console.log('ready', Number(process.hrtime.bigint() - begin) / 1e9)
  await new Promise(resolve => process.stdin.once('data', resolve))
  const worker = async () => {
    for (;;) {
      const found = await queue.fetch('noop')
      if (!found || !found.length) return
      await queue.complete('noop', found.map(job => job.id))
    }
  }
  await Promise.all(Array.from({ length: concurrency }, worker))
  console.log('done')
  process.exit(0)
}

main()
