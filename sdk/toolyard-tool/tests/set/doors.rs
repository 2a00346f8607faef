//! Which doors open, and which do not.

use toolyard_tool::{Door, ServeError, Server, ToolSet};

fn set() -> ToolSet {
    ToolSet::new("doors", "1")
}

#[tokio::test]
async fn a_door_that_others_could_reach_stays_closed() {
    for door in [Door::Http("0.0.0.0:0".into()), Door::Tcp("[::]:0".into())] {
        let refused = Server::start(set(), [door]).await.unwrap_err();
        assert!(matches!(refused, ServeError::NotLoopback(_)), "{refused}");
    }
}

#[tokio::test]
async fn all_doors_open_or_none() {
    let free = Server::start(set(), [Door::Tcp("127.0.0.1:0".into())]).await.unwrap();
    let taken = free.addresses()[0].to_string();
    let refused = Server::start(set(), [Door::Http("127.0.0.1:0".into()), Door::Tcp(taken.clone())]).await;
    assert_eq!(refused.unwrap_err().to_string(), format!("cannot listen on {taken}"));
    free.end().await;
    assert!(
        Server::start(set(), [Door::Tcp(taken)]).await.is_ok(),
        "a server that ended lets go of its door"
    );
}

#[test]
fn arguments_choose_the_doors() {
    let doors = |words: &[&str]| Door::from_args(words.iter().map(ToString::to_string));
    assert_eq!(doors(&[]).unwrap(), [Door::Stdio]);
    let both = [Door::Unix("/tmp/x".into()), Door::Stdio];
    assert_eq!(doors(&["--unix", "/tmp/x", "--stdio"]).unwrap(), both);
    assert!(doors(&["--http"]).unwrap_err().to_string().starts_with("`--http` needs a value"));
    assert!(doors(&["--htp", "x"]).unwrap_err().to_string().starts_with("`--htp` is not known"));
}
