//! The clock of a call.

use super::*;

const SHORT: Timeouts = Timeouts { idle: Duration::from_secs(10), hard: Duration::from_mins(1) };

#[tokio::test(start_paused = true)]
async fn silence_ends_a_call_after_the_idle_time() {
    let clock = Clock::start(SHORT);
    assert_eq!(clock.expired().await, Expired::Idle(SHORT.idle));
    assert_eq!(clock.start.elapsed(), SHORT.idle);
}

#[tokio::test(start_paused = true)]
async fn progress_extends_it_up_to_the_hard_maximum() {
    let clock = Clock::start(SHORT);
    let touches = async {
        loop {
            tokio::time::sleep(Duration::from_secs(9)).await;
            clock.touch();
        }
    };
    tokio::select! {
        bound = clock.expired() => assert_eq!(bound, Expired::Hard(SHORT.hard)),
        () = touches => unreachable!(),
    }
    assert_eq!(clock.start.elapsed(), SHORT.hard);
}

#[tokio::test(start_paused = true)]
async fn a_program_that_was_suspended_still_takes_an_answer_that_came_in_time() {
    let clock = Clock::start(SHORT);
    // As if the process had been stopped, and with it the alarm.
    tokio::time::advance(SHORT.idle * 3).await;
    let answer = async {
        tokio::time::sleep(MOMENT / 2).await;
        "answer"
    };
    tokio::select! {
        bound = clock.expired() => panic!("{bound:?}"),
        answer = answer => assert_eq!(answer, "answer"),
    }
    assert_eq!(clock.expired().await, Expired::Idle(SHORT.idle));
    assert_eq!(clock.start.elapsed(), SHORT.idle * 3 + MOMENT / 2 + MOMENT);
}

#[tokio::test(start_paused = true)]
async fn questions_that_overlap_stop_the_clock_once() {
    let clock = Clock::start(SHORT);
    let asked: Vec<Paused> = (0..32).map(|_| clock.pause()).collect();
    tokio::time::sleep(Duration::from_secs(100)).await;
    drop(asked);
    assert_eq!(clock.paused.load(Ordering::Relaxed), 100_000);
}

#[tokio::test(start_paused = true)]
async fn the_clock_is_paused_while_the_user_is_asked() {
    let clock = Clock::start(SHORT);
    let paused = clock.pause();
    let thaw = async {
        tokio::time::sleep(Duration::from_secs(500)).await;
        drop(paused);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        bound = clock.expired() => assert_eq!(bound, Expired::Idle(SHORT.idle)),
        () = thaw => unreachable!(),
    }
    assert_eq!(clock.start.elapsed(), Duration::from_secs(510));
}
