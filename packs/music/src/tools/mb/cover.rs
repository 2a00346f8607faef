//! `mb_cover_download`: the cover of a release, into the library.

use std::io::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolyard_jail::Inside;
use toolyard_tool::{Problems, ToolError, WithText, tool};

use crate::library::Library;
use crate::tags::picture;
use crate::tools::change::existing;
use crate::trouble::JailResult as _;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct CoverDownload {
    /// The MusicBrainz id of the release.
    #[schemars(regex(pattern = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"))]
    mbid: String,
    /// The folder to put it into; it must exist.
    path: String,
    /// What to call it, without an ending.
    #[serde(default = "cover")]
    filename: String,
    /// How large, in pixels. If there is none of that size, the nearest is taken.
    #[serde(default)]
    thumbnail_size: Size,
    /// Replace a file of that name.
    #[serde(default)]
    overwrite: bool,
}

fn cover() -> String {
    "cover".into()
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
enum Size {
    #[serde(rename = "250")]
    Small,
    #[default]
    #[serde(rename = "500")]
    Middle,
    #[serde(rename = "1200")]
    Large,
    #[serde(rename = "original")]
    Original,
}

impl Size {
    /// Under which names to look, the best first. The archive has used two names for the same sizes.
    fn chain(self) -> &'static [&'static str] {
        match self {
            Self::Small => &["250", "small", "500", "large", "1200", ""],
            Self::Middle => &["500", "large", "1200", "250", "small", ""],
            Self::Large => &["1200", "", "500", "large", "250", "small"],
            Self::Original => &["", "1200", "500", "large", "250", "small"],
        }
    }

    fn of(name: &str) -> Self {
        match name {
            "250" | "small" => Self::Small,
            "500" | "large" => Self::Middle,
            "1200" => Self::Large,
            _ => Self::Original,
        }
    }
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Covered {
    success: bool,
    file_path: String,
    file_size_bytes: usize,
    image_type: String,
    /// The size that was there.
    thumbnail_size: Size,
    source_url: String,
}

fn check(args: &CoverDownload, problems: &mut Problems) {
    let is_safe = !args.filename.is_empty()
        && !args.filename.starts_with('.')
        && !args.filename.contains(['/', '\\', '\0']);
    if !is_safe {
        problems.add("filename", "must be a plain name: no slashes, no dot first");
    }
}

/// Downloads the front cover of a release from the Cover Art Archive into a folder of the library.
#[tool(
    destructive = false,
    open_world,
    check = check,
    rule = "`filename` must be a plain name: no slashes, no dot first."
)]
pub(crate) async fn mb_cover_download(
    library: &Library,
    args: CoverDownload,
) -> Result<WithText<Covered>, ToolError> {
    let folder = library.path_to_change(&args.path)?;
    library.jail.folder(&folder).tool_error()?;
    let images = library.services.coverart.images(&args.mbid).await?;
    let (url, size) = choose(&images, args.thumbnail_size).ok_or_else(|| {
        ToolError::not_found("the Cover Art Archive has no pictures of this release")
            .hint("try another release")
    })?;
    let downloaded = library.services.coverart.download(&url).await?;
    let ending = picture::kind(&downloaded.bytes).ok_or_else(|| {
        ToolError::new(format!("what is at `{}` is not a picture", downloaded.url)).hint("try another size")
    })?;
    let path = folder.join(format!("{}.{ending}", args.filename)).tool_error()?;
    save(library, &path, &downloaded.bytes, args.overwrite).await?;
    let text = format!("{path}: {} bytes", downloaded.bytes.len());
    let covered = Covered {
        success: true,
        file_path: path.to_string(),
        file_size_bytes: downloaded.bytes.len(),
        image_type: ending.into(),
        thumbnail_size: size,
        source_url: downloaded.url,
    };
    Ok(WithText::new(covered, text))
}

/// The front cover if there is one, else the first picture; and where it is in the wanted size.
fn choose(images: &[Value], size: Size) -> Option<(String, Size)> {
    let image = images.iter().find(|image| image["front"] == true).or_else(|| images.first())?;
    size.chain().iter().find_map(|name| {
        let url = if name.is_empty() { &image["image"] } else { &image["thumbnails"][*name] };
        Some((url.as_str()?.to_owned(), Size::of(name)))
    })
}

/// Files are written where blocking does no harm.
async fn save(library: &Library, path: &Inside, bytes: &[u8], overwrite: bool) -> Result<(), ToolError> {
    let jail = library.jail.clone();
    let path = path.clone();
    let bytes = bytes.to_vec();
    let written = tokio::task::spawn_blocking(move || {
        jail.write(&path, existing(overwrite), |file| Ok(file.write_all(&bytes)?)).tool_error()
    });
    written.await?
}
