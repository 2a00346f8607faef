//! Screenshots: their format, and that a place in one is a place to click.

use serde_json::{Value, json};

use crate::desk::{Agent, Simulated};

#[tokio::test]
async fn a_screenshot_is_image_content_of_its_true_type() {
    let ui = Simulated::new();
    let mut agent = Agent::new(&ui).await;
    let png = agent.call("CaptureScreenshot", json!({})).await;
    assert_eq!(png["content"][0]["mimeType"], "image/png");
    assert!(png["content"][0]["data"].as_str().unwrap().starts_with("iVBORw0KGgo"));
    let jpeg = agent.call("CaptureScreenshot", json!({ "format": "jpeg", "quality": 50 })).await;
    assert_eq!(jpeg["content"][0]["mimeType"], "image/jpeg");
    assert!(jpeg["content"][0]["data"].as_str().unwrap().starts_with("/9j/"));
    let part = agent.call("CaptureScreenshot", json!({ "path": "Window/Button" })).await;
    assert!(
        part["content"][0]["data"].as_str().unwrap().len()
            < png["content"][0]["data"].as_str().unwrap().len()
    );
}

#[tokio::test]
async fn a_place_in_a_screenshot_is_a_place_to_click_whatever_the_scale() {
    for scale in [1, 2] {
        let ui = Simulated::new();
        ui.change(|desk| desk.scale = Some(scale));
        let mut agent = Agent::new(&ui).await;
        let (size, red) = decoded(&agent.call("CaptureScreenshot", json!({})).await);
        assert_eq!(size, (320, 200), "scale {scale}");
        let (first, last) = (red[0], red[red.len() - 1]);
        assert_eq!((first, last, red.len()), ((10, 40), (89, 59), 80 * 20), "scale {scale}");
        agent.get("ClickElement", json!({ "x": first.0, "y": last.1 })).await;
        assert!(ui.desk.lock().has_notice, "the red part is the button that shows the notice");
        let part = decoded(&agent.call("CaptureScreenshot", json!({ "path": "Window/Button" })).await);
        assert_eq!((part.0, part.1.len()), ((80, 20), 80 * 20), "scale {scale}");
    }
}

/// The size of a PNG in an answer, and where it is red.
fn decoded(answer: &Value) -> ((u32, u32), Vec<(u32, u32)>) {
    let file = from_base64(answer["content"][0]["data"].as_str().unwrap());
    let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    let places = (0..info.height).flat_map(|y| (0..info.width).map(move |x| (x, y)));
    let red = places.zip(pixels.chunks_exact(4)).filter(|(_, pixel)| *pixel == [200, 0, 0, 255]);
    ((info.width, info.height), red.map(|(place, _)| place).collect())
}

fn from_base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for digit in text.bytes().filter_map(|byte| DIGITS.iter().position(|one| *one == byte)) {
        bits = bits << 6 | u32::try_from(digit).unwrap();
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).unwrap());
        }
    }
    bytes
}
