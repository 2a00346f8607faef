//! Reads the tags, properties and pictures of a file, in the form of answers.

use std::fs::File;

use lofty::file::{AudioFile as _, TaggedFile, TaggedFileExt as _};
use lofty::picture::Picture;
use lofty::properties::FileProperties;
use lofty::tag::{ItemKey, Tag};
use schemars::JsonSchema;
use serde::Serialize;
use toolyard_tool::ToolError;

use super::file::{self, Parts};
use super::picture::PictureAbout;
use super::{FIELDS, Tags};

/// What is known of a file.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AudioFile {
    /// The file.
    pub(crate) file: String,
    /// What its content is.
    pub(crate) format: String,
    /// Its tags; nothing if it has none.
    pub(crate) metadata: Option<Metadata>,
    /// How it sounds, if that was asked for.
    pub(crate) properties: Option<Properties>,
    /// The pictures in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) pictures: Vec<PictureAbout>,
}

/// The tags of a file.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Metadata {
    #[serde(flatten)]
    pub(crate) tags: Tags,
    /// How many items the file's tags hold, unknown ones included.
    pub(crate) total_tags: u32,
}

/// How a file sounds.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Properties {
    pub(crate) duration_seconds: f64,
    /// Minutes and seconds.
    pub(crate) duration_formatted: String,
    pub(crate) bitrate_kbps: Option<u32>,
    pub(crate) sample_rate_hz: Option<u32>,
    pub(crate) channels: Option<u8>,
    pub(crate) channel_description: Option<String>,
    pub(crate) bit_depth: Option<u8>,
}

/// Reads the requested parts. `shown` is the file's name in the answer.
pub(crate) fn read(
    file: &mut File,
    name: &str,
    shown: String,
    with_properties: bool,
) -> Result<AudioFile, ToolError> {
    let audio = file::open(file, name, Parts { properties: with_properties, pictures: true })?;
    Ok(AudioFile {
        file: shown,
        format: file::format(audio.file_type()).into(),
        metadata: metadata(&audio),
        properties: with_properties.then(|| properties(audio.properties())),
        pictures: pictures(&audio).map(|(about, _)| about).collect(),
    })
}

/// The tags alone, as quickly as it goes.
pub(crate) fn tags(file: &mut File, name: &str) -> Result<Tags, ToolError> {
    let audio = file::open(file, name, Parts { properties: false, pictures: false })?;
    Ok(metadata(&audio).map(|metadata| metadata.tags).unwrap_or_default())
}

/// The pictures of all tags, numbered.
pub(crate) fn pictures(audio: &TaggedFile) -> impl Iterator<Item = (PictureAbout, &Picture)> {
    let all =
        in_order(audio).into_iter().flat_map(|tag| tag.pictures().iter().map(move |picture| (tag, picture)));
    all.enumerate()
        .map(|(index, (tag, picture))| (PictureAbout::new(index, tag.tag_type(), picture), picture))
}

fn metadata(audio: &TaggedFile) -> Option<Metadata> {
    let tags = in_order(audio);
    let total_tags = tags.iter().map(|tag| tag.item_count() + tag.picture_count()).sum();
    let values = Tags::collect(|key| tags.iter().find_map(|tag| value(tag, key)));
    (total_tags > 0).then_some(Metadata { tags: values, total_tags })
}

/// The format's own tag first; the others fill in what it lacks.
fn in_order(audio: &TaggedFile) -> Vec<&Tag> {
    let own = audio.primary_tag_type();
    let mut tags: Vec<&Tag> = audio.tags().iter().collect();
    tags.sort_by_key(|tag| tag.tag_type() != own);
    tags
}

/// All values of a field in one text. Older formats have a year where others have a date.
fn value(tag: &Tag, key: ItemKey) -> Option<String> {
    let values: Vec<&str> = tag.get_strings(key).filter(|text| !text.is_empty()).collect();
    match (values.is_empty(), key) {
        (false, _) => Some(values.join("; ")),
        (true, ItemKey::RecordingDate) => tag
            .get_string(ItemKey::Year)
            .or_else(|| tag.get_string(ItemKey::ReleaseDate))
            .map(ToOwned::to_owned),
        (true, ItemKey::UnsyncLyrics) => tag.get_string(ItemKey::Lyrics).map(ToOwned::to_owned),
        (true, ItemKey::Label) => tag.get_string(ItemKey::Publisher).map(ToOwned::to_owned),
        (true, ItemKey::Bpm) => tag.get_string(ItemKey::IntegerBpm).map(ToOwned::to_owned),
        (true, _) => None,
    }
}

fn properties(found: &FileProperties) -> Properties {
    let seconds = found.duration().as_secs();
    Properties {
        duration_seconds: found.duration().as_secs_f64(),
        duration_formatted: format!("{}:{:02}", seconds / 60, seconds % 60),
        bitrate_kbps: found.audio_bitrate().or_else(|| found.overall_bitrate()),
        sample_rate_hz: found.sample_rate(),
        channels: found.channels(),
        channel_description: found.channels().map(|channels| match channels {
            1 => "mono".into(),
            2 => "stereo".into(),
            6 => "5.1".into(),
            8 => "7.1".into(),
            other => format!("{other} channels"),
        }),
        bit_depth: found.bit_depth(),
    }
}

/// The names of all fields, for messages.
pub(crate) fn field_names() -> String {
    let names: Vec<&str> = FIELDS.iter().map(|field| field.name).collect();
    names.join(", ") + ", year"
}
