//! Our fingerprints against those of Debian's `fpcalc`.

use std::path::Path;
use std::process::Command;

use super::*;

/// What a band might sound like to an ear that counts: chords with overtones that change and die away, over noise.
const MUSIC: &str = "aevalsrc=exprs='(sin(2*PI*t*110*pow(2\\,mod(floor(t*2)\\,9)/12))+0.6*sin(4*PI*t*110*pow(2\\,mod(floor(t*2)\\,9)/12))+0.5*sin(2*PI*t*165*pow(2\\,mod(floor(t*1.5)\\,7)/12))+0.4*sin(6*PI*t*131*pow(2\\,mod(floor(t)\\,5)/12)))*0.2*exp(-1.5*mod(t\\,0.5))|(sin(2*PI*t*220*pow(2\\,mod(floor(t*4)\\,11)/12))+0.5*sin(6*PI*t*98*pow(2\\,mod(floor(t*2)\\,8)/12)))*0.2':d=30:s=44100,aformat=channel_layouts=stereo[tones];anoisesrc=color=pink:seed=7:amplitude=0.3:duration=30:sample_rate=44100,aformat=channel_layouts=stereo[noise];[tones][noise]amix=inputs=2";

fn make(folder: &Path, name: &str, flags: &[&str]) -> std::path::PathBuf {
    let path = folder.join(name);
    let made = Command::new("ffmpeg")
        .args(["-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i", MUSIC, "-ar", "44100"])
        .args(flags)
        .arg(&path)
        .status()
        .expect("ffmpeg, which `cargo xtask ci` installs");
    assert!(made.success());
    path
}

fn raw(path: &Path) -> Vec<u32> {
    let said = Command::new("fpcalc").args(["-raw", "-json"]).arg(path).output().expect("fpcalc");
    let said: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
    said["fingerprint"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| u32::try_from(item.as_u64().unwrap()).unwrap())
        .collect()
}

fn config(fpcalc: &str) -> Config {
    serde_json::from_value(serde_json::json!({ "root": ".", "fpcalc": fpcalc })).unwrap()
}

#[test]
fn fingerprints_are_those_of_fpcalc_but_for_2_percent_of_bits_and_5_in_m4a() {
    let folder = tempfile::tempdir().unwrap();
    for (name, flags, most) in [
        ("a.wav", &["-c:a", "pcm_s16le"][..], 0.02),
        ("a.flac", &["-c:a", "flac"], 0.02),
        ("a.mp3", &["-c:a", "libmp3lame", "-b:a", "192k"], 0.02),
        ("a.ogg", &["-c:a", "libvorbis"], 0.02),
        // Probably because of the 23 ms of silence that an AAC encoder puts first and the file says to leave out.
        ("a.m4a", &["-c:a", "aac", "-b:a", "192k"], 0.05),
    ] {
        let path = make(folder.path(), name, flags);
        let ours = take(&config(""), File::open(&path).unwrap(), name, &|| false).unwrap();
        let theirs = raw(&path);
        assert!(
            ours.items.len().abs_diff(theirs.len()) <= 1,
            "{name}: {} and {}",
            ours.items.len(),
            theirs.len()
        );
        let wrong = difference(&ours.items, &theirs);
        assert!(wrong < most, "{name}: {wrong}");
        assert!((29.9..30.2).contains(&ours.duration), "{name}: {}", ours.duration);
    }
}

#[test]
fn what_we_cannot_decode_is_left_to_fpcalc() {
    let folder = tempfile::tempdir().unwrap();
    let path = make(folder.path(), "a.opus", &["-c:a", "libopus", "-ar", "48000"]);
    let open = || File::open(&path).unwrap();
    let theirs = raw(&path);
    assert_eq!(take(&config("fpcalc"), open(), "a.opus", &|| false).unwrap().items, theirs);
    let without = take(&config(""), open(), "a.opus", &|| false).unwrap_err().to_string();
    assert!(
        without.contains("cannot be fingerprinted") && without.contains("Hint: set `fpcalc`"),
        "{without}"
    );
    let missing = take(&config("no-such-program"), open(), "a.opus", &|| false).unwrap_err().to_string();
    assert!(missing.contains("cannot be started") && missing.contains("libchromaprint-tools"), "{missing}");
}
