//! What a client that reconnects can still get.

use std::future::poll_fn;

use bytes::Bytes;
use http_body_util::BodyExt;

use super::*;

const LARGE: usize = 700 * 1024;

fn streams() -> Arc<Streams> {
    Streams::new(Revision::V2025_11_25, Duration::from_mins(1), Arc::default())
}

fn message(size: usize) -> Rendered {
    Rendered::whole(Bytes::from(vec![b'x'; size]))
}

/// A call that sends one message, whose client has then disconnected.
async fn left(streams: &Arc<Streams>) -> (u64, Arc<dyn Outlet>) {
    let mut reader = streams.open(1);
    let outlet = streams.outlet(&reader);
    outlet.tell(message(1), Weight::Light);
    assert!(matches!(poll_fn(|cx| reader.poll_first(cx)).await, FirstRead::Events));
    (reader.number, outlet)
}

/// How many events come after one; `None` if what came was lost.
async fn after(streams: &Arc<Streams>, event: String) -> Option<usize> {
    let body = streams.resume(&event)?.collect().await.unwrap().to_bytes();
    Some(String::from_utf8_lossy(&body).matches("id: ").count())
}

#[tokio::test]
async fn an_unread_answer_outlives_the_messages_of_other_streams() {
    let streams = streams();
    let (number, outlet) = left(&streams).await;
    outlet.answer(message(1)).await;
    for _ in 0..3 {
        let (_, other) = left(&streams).await;
        (0..200).for_each(|_| other.tell(message(1), Weight::Light));
    }
    assert_eq!(after(&streams, format!("{number}-1")).await, Some(1));
    let (number, outlet) = left(&streams).await;
    outlet.answer(message(1)).await;
    left(&streams).await.1.tell(message(2 * LARGE), Weight::Heavy);
    assert_eq!(after(&streams, format!("{number}-0")).await, Some(1), "the answer, if not what came before");
    // Now that they have been read, they are kept no longer than the rest.
    let (_, other) = left(&streams).await;
    (0..255).for_each(|_| other.tell(message(1), Weight::Light));
    assert_eq!(after(&streams, format!("{number}-1")).await, None);
}

#[tokio::test]
async fn coming_back_for_a_lost_answer_fails() {
    let streams = streams();
    let (number, outlet) = left(&streams).await;
    outlet.answer(message(LARGE)).await;
    left(&streams).await.1.answer(message(LARGE)).await;
    assert_eq!(after(&streams, format!("{number}-1")).await, None);
    assert_eq!(after(&streams, format!("{number}-2")).await, Some(0), "it had been read");
    assert_eq!(after(&streams, "77-1".into()).await, None, "there never was one");
}
