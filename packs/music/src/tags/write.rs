//! Changing the tags of a file: a copy is edited and takes the file's place in one step.

use std::collections::BTreeMap;
use std::io::Seek as _;

use lofty::config::WriteOptions;
use lofty::file::{AudioFile as _, TaggedFile, TaggedFileExt as _};
use lofty::tag::{ItemKey, Tag, TagSupport, TagType};
use toolyard_jail::{Inside, JailError};
use toolyard_tool::{Context, Problems, ToolError};

use super::file::{self, Parts};
use super::stoppable::Stoppable;
use super::{Field, TagChange, field, read};
use crate::library::Library;
use crate::trouble::{cancelled, with_hint};

const NAMELESS: &str = "";

/// The changed fields with their new values; `None` for a field that was deleted.
pub(crate) type Changed = BTreeMap<String, Option<String>>;

/// Checks of a change that no schema can express.
pub(crate) fn check(change: &TagChange, problems: &mut Problems) {
    for name in &change.remove {
        if field(name).is_none() {
            problems.add(
                "remove",
                format!("names `{name}`, which is not a field; the fields are {}", read::field_names()),
            );
        }
    }
    if change.given().is_empty() && change.remove.is_empty() && !change.clear_existing {
        problems.add_general("there is nothing to write: give a field, `remove` or `clear_existing`");
    }
}

/// Writes a change into a file of the library.
pub(crate) fn write(
    library: &Library,
    context: &Context,
    path: &Inside,
    change: &TagChange,
) -> Result<Changed, ToolError> {
    edit(library, context, path, |audio| apply(audio, change))
}

/// Edits the tags of a file that the caller has locked. A cancelled call stops between two blocks of the file and
/// leaves it as it was.
pub(crate) fn edit<T>(
    library: &Library,
    context: &Context,
    path: &Inside,
    edit: impl FnOnce(&mut TaggedFile) -> Result<T, ToolError>,
) -> Result<T, ToolError> {
    edit_while(library, &|| !context.is_cancelled(), path, edit)
}

/// The same while `go_on` returns true.
fn edit_while<T>(
    library: &Library,
    go_on: &dyn Fn() -> bool,
    path: &Inside,
    edit: impl FnOnce(&mut TaggedFile) -> Result<T, ToolError>,
) -> Result<T, ToolError> {
    let name = path.name().and_then(|name| name.to_str()).unwrap_or(NAMELESS);
    let edited = library.jail.edit_while(path, go_on, |file| {
        let mut file = Stoppable::new(file, go_on);
        let mut audio = file::open(&mut file, name, Parts { properties: false, pictures: true })?;
        let edited = edit(&mut audio)?;
        save(&mut file, &audio)?;
        // A file that cannot be read again must not replace one that could.
        file::open(&mut file, name, Parts { properties: true, pictures: true })?;
        Ok::<_, Failed>(edited)
    });
    edited.map_err(|Failed(error)| if go_on() { error } else { cancelled() })
}

fn save(file: &mut Stoppable<'_>, audio: &TaggedFile) -> Result<(), ToolError> {
    file.rewind()?;
    audio.save_to(file, WriteOptions::default())?;
    Ok(())
}

/// Changes the tags in memory.
pub(crate) fn apply(audio: &mut TaggedFile, change: &TagChange) -> Result<Changed, ToolError> {
    let own = audio.primary_tag_type();
    ensure_tag(audio, own)?;
    let kinds: Vec<TagType> = audio.tags().iter().map(Tag::tag_type).collect();
    let given = change.given();
    let mut changed = Changed::new();
    for kind in kinds {
        let Some(tag) = audio.tag_mut(kind) else { continue };
        if change.clear_existing {
            tag.retain(|_| false);
        }
        for name in &change.remove {
            if let Some(field) = field(name) {
                remove(tag, field.key);
                changed.insert(name.clone(), None);
            }
        }
        for (field, text) in &given {
            let is_kept = put(tag, field.key, text);
            if kind == own && !is_kept {
                return Err(not_supported(*field, kind));
            }
            changed.insert(field.name.into(), Some(text.clone()));
        }
    }
    Ok(changed)
}

pub(crate) fn ensure_tag(audio: &mut TaggedFile, kind: TagType) -> Result<(), ToolError> {
    if audio.tag(kind).is_some() {
        return Ok(());
    }
    if !matches!(audio.file_type().tag_support(kind), TagSupport::ReadWrite) {
        return Err(ToolError::new("tags cannot be written into files of this format")
            .hint("keep what is known of it with `manifest_write`"));
    }
    audio.insert_tag(Tag::new(kind));
    Ok(())
}

/// Sets a field. Returns whether the format has it.
fn put(tag: &mut Tag, key: ItemKey, text: &str) -> bool {
    remove(tag, key);
    let alternatives: &[ItemKey] = match key {
        ItemKey::RecordingDate => &[ItemKey::RecordingDate, ItemKey::Year],
        ItemKey::UnsyncLyrics => &[ItemKey::UnsyncLyrics, ItemKey::Lyrics],
        ItemKey::Bpm => &[ItemKey::Bpm, ItemKey::IntegerBpm],
        ItemKey::Label => &[ItemKey::Label, ItemKey::Publisher],
        _ => &[key],
    };
    alternatives.iter().any(|key| tag.insert_text(*key, text.to_owned()))
}

/// Removes a field under all names that reading looks at.
fn remove(tag: &mut Tag, key: ItemKey) {
    tag.remove_key(key);
    match key {
        ItemKey::RecordingDate => {
            tag.remove_key(ItemKey::Year);
            tag.remove_key(ItemKey::ReleaseDate);
        }
        ItemKey::UnsyncLyrics => tag.remove_key(ItemKey::Lyrics),
        ItemKey::Bpm => tag.remove_key(ItemKey::IntegerBpm),
        ItemKey::Label => tag.remove_key(ItemKey::Publisher),
        _ => {}
    }
}

fn not_supported(field: Field, kind: TagType) -> ToolError {
    ToolError::new(format!(
        "tags of the kind {kind:?} have no place for `{}`; nothing was written",
        field.name
    ))
    .hint("leave this field out for files of this format")
}

/// Lets one closure fail with errors of the jail and of tags.
pub(crate) struct Failed(pub(crate) ToolError);

impl From<JailError> for Failed {
    fn from(error: JailError) -> Self {
        Self(with_hint(error))
    }
}

impl From<ToolError> for Failed {
    fn from(error: ToolError) -> Self {
        Self(error)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs::{self, File};
    use std::io::Write as _;

    use tempfile::TempDir;

    use super::*;

    const MIB: u32 = 1024 * 1024;

    /// A library with one sound in `a.wav`, most of which takes no room on the disk.
    fn library_with_sound(bytes: u32) -> (TempDir, Library) {
        let folder = tempfile::tempdir().unwrap();
        let mut header = Vec::from(*b"RIFF");
        header.extend((bytes + 36).to_le_bytes());
        header.extend(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
        header.extend([44_100_u32, 88_200].into_iter().flat_map(u32::to_le_bytes));
        header.extend(b"\x02\0\x10\0data");
        header.extend(bytes.to_le_bytes());
        let mut file = File::create(folder.path().join("a.wav")).unwrap();
        file.write_all(&header).unwrap();
        file.set_len(44 + u64::from(bytes)).unwrap();
        let config = serde_json::json!({ "root": folder.path() });
        let library = Library::open(&serde_json::from_value(config).unwrap()).unwrap();
        (folder, library)
    }

    /// Writes a title into `a.wav` and is cancelled after so many looks; whether that worked, and how often it looked.
    fn write_title(library: &Library, looks: u64) -> (bool, u64) {
        let made = Cell::new(0);
        let go_on = || {
            made.set(made.get() + 1);
            made.get() <= looks
        };
        let change = TagChange { title: Some("T".into()), ..TagChange::default() };
        let path = library.path("a.wav").unwrap();
        let written = edit_while(library, &go_on, &path, |audio| apply(audio, &change));
        (written.is_ok(), made.get())
    }

    /// A block is at most 8 MiB, so at most 40 MiB of the 3 GiB are copied.
    #[test]
    fn a_cancelled_change_of_a_large_file_copies_no_further_block() {
        let (folder, library) = library_with_sound(3 * 1024 * MIB);
        let (is_written, looks) = write_title(&library, 5);
        assert!(!is_written && looks <= 7, "it looked {looks} times");
        let names: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["a.wav"]);
    }

    #[test]
    fn a_cancel_at_any_stage_of_a_change_ends_it_at_the_next_look_and_leaves_the_file() {
        let (folder, library) = library_with_sound(20 * MIB);
        let (other, twin) = library_with_sound(20 * MIB);
        let (is_written, all) = write_title(&twin, u64::MAX);
        assert!(is_written && all > 5, "it looked {all} times");
        let before = fs::read(folder.path().join("a.wav")).unwrap();
        for at in [0, 2, all / 4, all / 2, 3 * all / 4, all - 2, all - 1] {
            let (is_written, looks) = write_title(&library, at);
            assert!(!is_written && looks <= at + 2, "cancelled at {at} of {all}, it looked {looks} times");
            assert!(fs::read(folder.path().join("a.wav")).unwrap() == before, "cancelled at {at} of {all}");
        }
        assert!(write_title(&library, all).0);
        let content = |folder: &TempDir| fs::read(folder.path().join("a.wav")).unwrap();
        assert!(content(&folder) == content(&other));
    }
}
