//! Pictures: putting one into a file, and taking one out.

use std::io::{Read as _, Write as _};

use data_encoding::BASE64;
use lofty::file::TaggedFileExt as _;
use lofty::picture::{Picture, PictureType};
use lofty::tag::{Tag, TagType};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_jail::{Existing, Inside};
use toolyard_tool::{Context, ToolError, WithText, tool};

use crate::library::Library;
use crate::tags::file::{self, Parts};
use crate::tags::picture::{self, LARGEST, Shows};
use crate::tags::read;
use crate::tags::write::{self, Failed};
use crate::trouble::JailResult as _;

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{ "required": ["image_path"] }, { "required": ["image_bytes_base64"] }]))]
pub(crate) struct EmbedCover {
    /// The audio file.
    pub(crate) path: String,
    /// A picture in the library, or
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) image_path: Option<String>,
    /// the picture itself, as base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) image_bytes_base64: Option<String>,
    /// What it shows.
    #[serde(default)]
    pub(crate) picture_type: Shows,
    /// A few words about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    /// Remove pictures of the same type first.
    #[serde(default)]
    pub(crate) replace_existing: bool,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Embedded {
    file: String,
    picture_type: Shows,
    mime_type: String,
    bytes: usize,
    /// Whether a picture of that type was there and is gone.
    replaced_existing: bool,
    /// How many pictures the file has now.
    pictures_after: usize,
}

/// Puts a JPEG or PNG picture of at most 10 MiB into an audio file. The file is replaced in one step.
#[tool(destructive = false)]
pub(crate) fn embed_cover(
    library: &Library,
    context: &Context,
    args: EmbedCover,
) -> Result<WithText<Embedded>, ToolError> {
    let path = library.path_to_change(&args.path)?;
    let _locked = library.lock(context, &[&path])?;
    let embedded = embed(library, context, &path, &args)?;
    let text = format!("{path}: {} picture of {} bytes", embedded.mime_type, embedded.bytes);
    Ok(WithText::new(embedded, text))
}

/// Embeds a picture into a file that the caller has locked.
pub(crate) fn embed(
    library: &Library,
    context: &Context,
    path: &Inside,
    args: &EmbedCover,
) -> Result<Embedded, ToolError> {
    let (picture, mime) = self::picture(library, args)?;
    let bytes = picture.data().len();
    write::edit(library, context, path, |audio| {
        let own = audio.primary_tag_type();
        let kind = if can_hold(own) { own } else { TagType::Id3v2 };
        write::ensure_tag(audio, kind)?;
        let Some(tag) = audio.tag_mut(kind) else {
            return Err(ToolError::new("this format has no place for pictures")
                .hint("keep the picture as a file beside it, such as `cover.jpg`"));
        };
        let before = tag.picture_count();
        if args.replace_existing {
            remove(tag, args.picture_type.into());
        }
        let after = tag.picture_count();
        tag.push_picture(picture);
        Ok(Embedded {
            file: path.to_string(),
            picture_type: args.picture_type,
            mime_type: mime.into(),
            bytes,
            replaced_existing: after < before,
            pictures_after: audio.tags().iter().map(|tag| tag.pictures().len()).sum(),
        })
    })
}

/// The picture that the arguments name, checked.
pub(crate) fn picture(library: &Library, args: &EmbedCover) -> Result<(Picture, &'static str), ToolError> {
    picture::make(bytes(library, args)?, args.picture_type, args.description.clone())
}

/// INFO chunks and the like hold text only.
fn can_hold(kind: TagType) -> bool {
    !matches!(kind, TagType::RiffInfo | TagType::AiffText | TagType::Id3v1)
}

fn remove(tag: &mut Tag, shows: PictureType) {
    if picture::has_types(tag.tag_type()) {
        return tag.remove_picture_type(shows);
    }
    for index in (0..tag.pictures().len()).rev() {
        tag.remove_picture(index);
    }
}

fn bytes(library: &Library, args: &EmbedCover) -> Result<Vec<u8>, ToolError> {
    if let Some(text) = &args.image_bytes_base64 {
        let text: String = text.split_whitespace().collect();
        return BASE64.decode(text.as_bytes()).map_err(|error| {
            ToolError::new(format!("`image_bytes_base64` is not base64: {error}"))
                .hint("put the picture into the library and pass `image_path`")
        });
    }
    let path = library.path(args.image_path.as_deref().unwrap_or_default())?;
    let mut bytes = Vec::new();
    // One byte more than allowed is enough to know.
    library.jail.open(&path).tool_error()?.take(LARGEST as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct ExtractPicture {
    /// The audio file.
    path: String,
    /// Where to put the picture; the usual ending is added if there is none.
    to: String,
    /// Which picture, as `read_metadata` numbers them.
    #[serde(default)]
    index: usize,
    /// Replace a file of that name.
    #[serde(default)]
    overwrite: bool,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Extracted {
    file: String,
    picture_path: String,
    picture_type: Shows,
    mime_type: Option<String>,
    bytes: usize,
}

/// Takes a picture out of an audio file and writes it into a file of its own. The audio file stays as it is.
#[tool(destructive = false)]
pub(crate) fn extract_picture(
    library: &Library,
    args: ExtractPicture,
) -> Result<WithText<Extracted>, ToolError> {
    let path = library.path(&args.path)?;
    let name = path.name().and_then(|name| name.to_str()).unwrap_or_default();
    let audio = file::open(
        &mut library.jail.open(&path).tool_error()?,
        name,
        Parts { properties: false, pictures: true },
    )?;
    let Some((about, picture)) = read::pictures(&audio).nth(args.index) else {
        let there = read::pictures(&audio).count();
        return Err(ToolError::new(format!("`{path}` has no picture {}: it has {there}", args.index))
            .hint("`read_metadata` lists the pictures"));
    };
    let ending = picture::kind(picture.data()).unwrap_or("bin");
    let has_ending = args.to.rsplit('/').next().is_some_and(|name| name.contains('.'));
    let to = if has_ending { args.to.clone() } else { format!("{}.{ending}", args.to) };
    let to = library.path_to_change(&to)?;
    let existing = if args.overwrite { Existing::Replace } else { Existing::Keep };
    let written = library
        .jail
        .write(&to, existing, |file| file.write_all(picture.data()).map_err(|error| Failed(error.into())));
    written.map_err(|Failed(error)| error)?;
    let extracted = Extracted {
        file: path.to_string(),
        picture_path: to.to_string(),
        picture_type: about.picture_type,
        mime_type: about.mime_type,
        bytes: about.bytes,
    };
    let text = format!("{to}: {} bytes", extracted.bytes);
    Ok(WithText::new(extracted, text))
}
