//! A provider of models on this machine with accounts: it signs users in by device, and serves only their tokens.

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::provider::{compatible, request_of};

pub(crate) const ACCESS: &str = "the-access-token";
pub(crate) const REFRESH: &str = "the-refresh-token";

pub(crate) struct Account {
    pub(crate) url: String,
    /// The heads of requests to the model.
    asked: Arc<Mutex<Vec<String>>>,
}

impl Account {
    /// One whose model gives this answer.
    pub(crate) fn start(answer: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let (base, heads) = (url.clone(), asked.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (base, heads) = (base.clone(), heads.clone());
                std::thread::spawn(move || serve(stream.unwrap(), &base, answer, &heads));
            }
        });
        Self { url, asked }
    }

    /// How often the model was asked with the token of a signed-in user.
    pub(crate) fn asked(&self) -> usize {
        let authorization = format!("authorization: bearer {ACCESS}");
        let asked = self.asked.lock();
        asked.iter().filter(|head| head.to_ascii_lowercase().contains(&authorization)).count()
    }
}

fn serve(mut stream: TcpStream, base: &str, answer: &str, heads: &Mutex<Vec<String>>) {
    let request = request_of(&mut stream);
    let head = request.split("\r\n\r\n").next().unwrap_or_default();
    let path = head.split(' ').nth(1).unwrap_or_default();
    let (kind, body) = match path {
        "/token" => {
            let token = json!({ "access_token": ACCESS, "token_type": "Bearer", "expires_in": 3600, "refresh_token": REFRESH });
            ("application/json", token.to_string())
        }
        "/device" => {
            let page = "https://example.com/device";
            let code = json!({ "device_code": "d", "user_code": "WDJB-MJHT", "verification_uri": page, "interval": 1 });
            ("application/json", code.to_string())
        }
        "/v1/chat/completions" => {
            heads.lock().push(head.to_owned());
            let events = compatible(answer).into_iter().map(|event| format!("data: {event}\n\n"));
            ("text/event-stream", events.collect())
        }
        _ => ("application/json", metadata(base).to_string()),
    };
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n");
    // The client may have gone.
    let _ = write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len());
}

fn metadata(base: &str) -> Value {
    json!({
        "issuer": base,
        "authorization_endpoint": format!("{base}/authorize"),
        "token_endpoint": format!("{base}/token"),
        "device_authorization_endpoint": format!("{base}/device"),
        "code_challenge_methods_supported": ["S256"],
    })
}
