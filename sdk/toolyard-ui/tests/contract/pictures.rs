//! Screenshots.

use serde_json::json;

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
