//! Mocks of the services that the pack uses: for each address always the same answer.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use serde_json::{Value, json};

pub(crate) const ID: &str = "a74b1b7f-71a5-4011-9441-d0b5e4122711";
const JPEG: &[u8] = &[0xff, 0xd8, 0xff, 0xe0, 1, 2, 3];

/// Where they are; they stay until the test ends.
pub(crate) fn start() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let base = url.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let base = base.clone();
            std::thread::spawn(move || serve(&stream.unwrap(), &base));
        }
    });
    url
}

/// The keys of the pack that lead there.
pub(crate) fn keys(url: &str) -> [(&'static str, String); 4] {
    [
        ("musicbrainz_url", format!("{url}/mb")),
        ("acoustid_url", format!("{url}/acoustid")),
        ("coverart_url", format!("{url}/covers")),
        ("acoustid_key", "a-key".into()),
    ]
}

fn serve(stream: &TcpStream, base: &str) {
    let mut read = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if read.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        let length =
            head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        read.read_exact(&mut body).unwrap();
        let target = head.split(' ').nth(1).unwrap().to_owned();
        let answer = answer(&target, base);
        let status = if answer.is_empty() { "404 X" } else { "200 X" };
        let mut write = stream;
        // The client may have disconnected.
        let _ = write!(write, "HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n", answer.len());
        let _ = write.write_all(&answer);
    }
}

fn answer(target: &str, base: &str) -> Vec<u8> {
    let path = target.split('?').next().unwrap();
    let artist =
        json!({ "id": ID, "name": "Radiohead", "country": "GB", "area": { "name": "United Kingdom" } });
    let release = json!({ "id": ID, "title": "OK Computer", "date": "1997-05-21", "country": "GB" });
    let recording = json!({ "id": ID, "title": "Karma Police", "length": 264_000,
        "artist-credit": [{ "name": "Radiohead", "artist": { "id": ID, "name": "Radiohead" } }], "releases": [release] });
    let found: Value = match path.trim_start_matches("/mb/") {
        "artist" => json!({ "count": 1, "artists": [artist] }),
        "release" => json!({ "count": 1, "releases": [release] }),
        "recording" => json!({ "count": 1, "recordings": [recording] }),
        "work" => json!({ "count": 1, "works": [{ "id": ID, "title": "Yesterday", "type": "Song" }] }),
        "label" => json!({ "count": 1, "labels": [{ "id": ID, "name": "Parlophone", "label-code": 299 }] }),
        "/acoustid/lookup" => json!({ "status": "ok", "results": [{ "id": "x", "score": 0.9,
            "recordings": [{ "id": ID, "title": "Tone", "artists": [{ "name": "Sine" }] }] }] }),
        "/covers/front.jpg" => return JPEG.to_vec(),
        path if path == format!("/covers/release/{ID}") => {
            json!({ "images": [{ "front": true, "image": format!("{base}/covers/front.jpg"), "thumbnails": {} }] })
        }
        path if path == format!("artist/{ID}") => json!({ "name": "Radiohead", "relations": [
            { "type": "member of band", "direction": "backward", "target-type": "artist", "artist": { "id": ID, "name": "Thom Yorke" } },
        ] }),
        _ => return Vec::new(),
    };
    found.to_string().into_bytes()
}
