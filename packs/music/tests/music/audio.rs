//! Audio files for tests, made once with ffmpeg and kept with the build.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A name for each format, and its ffmpeg options.
pub(crate) const FORMATS: [(&str, &[&str]); 7] = [
    ("wav", &["-c:a", "pcm_s16le"]),
    ("flac", &["-c:a", "flac"]),
    ("mp3", &["-c:a", "libmp3lame", "-b:a", "64k"]),
    ("ogg", &["-c:a", "libvorbis"]),
    ("opus", &["-c:a", "libopus", "-ar", "48000"]),
    ("m4a", &["-c:a", "aac", "-b:a", "64k"]),
    ("aiff", &["-c:a", "pcm_s16be"]),
];

/// Two seconds of a tone in that format.
pub(crate) fn tone(format: &str) -> Vec<u8> {
    let (_, flags) = FORMATS.iter().find(|(name, _)| *name == format).expect("a known format");
    let path = folder().join(format!("tone.{format}"));
    if !path.exists() {
        make(&path, "sine=frequency=440:duration=2", flags);
    }
    fs::read(path).unwrap()
}

/// Half a minute that sounds different all the time.
pub(crate) fn tune(format: &str) -> Vec<u8> {
    melody("tune", format, "220+90*floor(t*2.5)", "330+60*floor(t*2)")
}

/// Another half minute.
pub(crate) fn other_tune(format: &str) -> Vec<u8> {
    melody("other", format, "880-25*floor(t*3)", "500+170*mod(floor(t*4)\\,5)")
}

fn melody(name: &str, format: &str, left: &str, right: &str) -> Vec<u8> {
    let (_, flags) = FORMATS.iter().find(|(name, _)| *name == format).expect("a known format");
    let path = folder().join(format!("{name}.{format}"));
    if !path.exists() {
        let source = format!("aevalsrc=0.5*sin(2*PI*({left})*t)|0.5*sin(2*PI*({right})*t):d=30:s=44100");
        make(&path, &source, flags);
    }
    fs::read(path).unwrap()
}

/// Writes a tone to that place, by its ending.
pub(crate) fn put(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, tone(path.extension().unwrap().to_str().unwrap())).unwrap();
}

fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("audio-1");
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Several tests may want the same file at the same time: each makes its own, and the last one stays.
fn make(path: &Path, source: &str, flags: &[&str]) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let ending = path.extension().unwrap().to_str().unwrap();
    let draft = path.with_file_name(format!("draft-{}-{count}.{ending}", std::process::id()));
    let made = Command::new("ffmpeg")
        .args(["-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i", source, "-ac", "2", "-ar", "44100"])
        .args(["-bitexact", "-map_metadata", "-1"])
        .args(flags)
        .arg(&draft)
        .status()
        .expect("ffmpeg, which `cargo xtask ci` installs");
    assert!(made.success());
    fs::rename(draft, path).unwrap();
}
