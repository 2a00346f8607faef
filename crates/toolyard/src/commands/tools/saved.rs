//! Saves the images, sound and other files of an answer, and names the files in their place.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use data_encoding::BASE64;
use serde_json::{Value, json};

use crate::failure::{Failure, refused};

/// How many names are tried for a file in a folder.
const MOST_NAMES: usize = 10_000;

/// Saves what the content of `result` has in base64, and leaves the path of each file instead.
pub(super) fn save(result: &mut Value, out: &Path, tool: &str) -> Result<(), Failure> {
    let Some(content) = result["content"].as_array_mut() else { return Ok(()) };
    let mut files: Vec<&mut Value> = content.iter_mut().filter(|item| data(item).is_some()).collect();
    let several = files.len() > 1;
    for (index, item) in files.iter_mut().enumerate() {
        let Some((base64, kind)) = data(item) else { continue };
        let bytes = BASE64.decode(base64.as_bytes()).map_err(|error| {
            refused(format!("the answer of `{tool}` has invalid base64: {error}"), "--json shows the answer")
        })?;
        let path = if is_folder(out) {
            in_folder(out, tool, kind, &bytes)?
        } else {
            let path = if several { numbered(out, index + 1) } else { out.to_owned() };
            fs::write(&path, &bytes).map_err(|error| cannot(&path, &error))?;
            path
        };
        let text = format!("[{kind}, {} bytes, saved to {}]", bytes.len(), path.display());
        **item = json!({ "type": "text", "text": text });
    }
    Ok(())
}

/// The base64 of a part of the content, and what kind of file it is.
fn data(item: &Value) -> Option<(&str, &str)> {
    let (base64, kind) = match item["type"].as_str()? {
        "image" | "audio" => (&item["data"], &item["mimeType"]),
        "resource" => (&item["resource"]["blob"], &item["resource"]["mimeType"]),
        _ => return None,
    };
    Some((base64.as_str()?, kind.as_str().unwrap_or("application/octet-stream")))
}

fn is_folder(out: &Path) -> bool {
    out.is_dir() || out.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// A new file with the name of the tool and a number; what is there is not replaced.
fn in_folder(folder: &Path, tool: &str, kind: &str, bytes: &[u8]) -> Result<PathBuf, Failure> {
    fs::create_dir_all(folder).map_err(|error| cannot(folder, &error))?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let stem: String = tool.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
    for number in 1..=MOST_NAMES {
        let path = folder.join(format!("{stem}-{number}.{}", extension(kind)));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => {
                file.write_all(bytes).map_err(|error| cannot(&path, &error))?;
                return Ok(path);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(cannot(&path, &error)),
        }
    }
    Err(refused(format!("{} is full of files of `{tool}`", folder.display()), "name another folder"))
}

/// `page.png` becomes `page-2.png`.
fn numbered(path: &Path, number: usize) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().map(|extension| format!(".{}", extension.to_string_lossy()));
    path.with_file_name(format!("{stem}-{number}{}", extension.unwrap_or_default()))
}

/// The usual extension; for kinds that are not in this list, the second half of their name.
fn extension(kind: &str) -> String {
    let kind = kind.split(';').next().unwrap_or_default().trim().to_lowercase();
    let known = match kind.as_str() {
        "image/jpeg" => "jpg",
        "image/svg+xml" => "svg",
        "audio/mpeg" => "mp3",
        "audio/x-wav" | "audio/wave" | "audio/vnd.wave" => "wav",
        "audio/mp4" => "m4a",
        "application/octet-stream" | "" => "bin",
        "text/plain" => "txt",
        other => other.split_once('/').map_or("bin", |(_, second)| second),
    };
    let plain: String = known.chars().filter(char::is_ascii_alphanumeric).take(16).collect();
    if plain.is_empty() { "bin".to_owned() } else { plain }
}

fn cannot(path: &Path, error: &std::io::Error) -> Failure {
    refused(format!("cannot write {}: {error}", path.display()), "name another path with --out")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> Value {
        let (png, wav) = (BASE64.encode(b"png"), BASE64.encode(b"sound"));
        json!({ "content": [
            { "type": "image", "mimeType": "image/png", "data": png },
            { "type": "text", "text": "between" },
            { "type": "resource", "resource": { "uri": "x:y", "mimeType": "audio/x-wav", "blob": wav } },
        ] })
    }

    #[test]
    fn files_in_a_folder_get_new_names() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("shot-page-1.png"), "mine").unwrap();
        let mut answer = answer();
        save(&mut answer, folder.path(), "shot/page").unwrap();
        let read = |name: &str| fs::read(folder.path().join(name)).unwrap();
        assert_eq!(read("shot-page-1.png"), b"mine");
        assert_eq!(read("shot-page-2.png"), b"png");
        assert_eq!(read("shot-page-1.wav"), b"sound");
        let printed =
            format!("[image/png, 3 bytes, saved to {}]", folder.path().join("shot-page-2.png").display());
        assert_eq!(answer["content"][0]["text"], printed);
        assert_eq!(answer["content"][1]["text"], "between");
    }

    #[test]
    fn several_files_are_numbered_and_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.png");
        save(&mut answer(), &path, "shot").unwrap();
        assert!(!path.exists());
        assert_eq!(fs::read(folder.path().join("out-1.png")).unwrap(), b"png");
        assert_eq!(fs::read(folder.path().join("out-2.png")).unwrap(), b"sound");
        let mut one = answer();
        one["content"].as_array_mut().unwrap().truncate(2);
        save(&mut one, &path, "shot").unwrap();
        assert_eq!(fs::read(path).unwrap(), b"png");
    }

    #[test]
    fn a_content_type_cannot_lead_out_of_the_folder() {
        assert_eq!(extension("image/../../etc"), "etc");
        assert_eq!(extension("image/"), "bin");
        assert_eq!(extension("audio/mpeg; rate=1"), "mp3");
        assert_eq!(extension("nonsense"), "bin");
    }
}
