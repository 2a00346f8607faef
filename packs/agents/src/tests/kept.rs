//! What is kept of a run: how much output, and for how long.

use super::*;

#[tokio::test]
async fn the_output_of_a_run_is_kept_up_to_a_limit() {
    // 400 lines of 64 KiB are 25 MiB; a short line after them would still fit, and comes too late as well.
    let script = "line=$(head -c 65535 /dev/zero | tr '\\0' x); i=0; \
                  while [ $i -lt 400 ]; do echo $line; i=$((i + 1)); done";
    let bench = Bench::new(script);
    let run = bench.run("x", 60).await;
    assert_eq!(run.status, Status::Completed, "{:?}", run.error);
    let output = bench.agents.store.folder().join("runs").join(format!("{}.log", run.id));
    assert_eq!(std::fs::metadata(output).unwrap().len(), 16 << 20);
}

#[tokio::test]
async fn runs_that_ended_long_ago_are_removed_with_their_output_when_the_pack_starts() {
    let bench = Bench::new("echo out");
    let runs = [bench.run("x", 60).await, bench.run("x", 60).await];
    let store = &bench.agents.store;
    let days_ago = |days: i64| runs[0].ended.unwrap() - days * 86_400;
    let rows = rusqlite::Connection::open(store.folder().join("agents.sqlite")).unwrap();
    for (run, days) in runs.iter().zip([31, 29]) {
        let set = "UPDATE runs SET ended = ?2 WHERE id = ?1";
        rows.execute(set, rusqlite::params![run.id, days_ago(days)]).unwrap();
        rows.execute("INSERT INTO trees (run, root) VALUES (?1, ?1)", rusqlite::params![run.id]).unwrap();
    }
    let again = bench.another();
    let ids = again.store.list(&owner(), 10).unwrap().into_iter().map(|run| run.id).collect::<Vec<_>>();
    assert_eq!(ids, [runs[1].id.clone()]);
    assert_eq!(runs.each_ref().map(|run| again.store.tail(&run.id, 1).len()), [0, 1]);
    assert_eq!(runs.each_ref().map(|run| again.store.spent(&run.id).unwrap().runs), [0, 1]);
}
