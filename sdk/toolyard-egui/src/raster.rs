//! Draws egui's triangles into memory, without a graphics card: what a screenshot needs and no more.
//!
//! Colours are multiplied by their alpha already, in the colour space of the screen, and are blended in it, as egui's
//! own painters do.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use egui::epaint::{ClippedPrimitive, ImageData, Mesh, Primitive, Vertex};
use egui::{Color32, ColorImage, Pos2, TextureId, TexturesDelta, Vec2};

/// The textures of an app: fonts and pictures.
#[derive(Default)]
pub(crate) struct Canvas {
    textures: HashMap<TextureId, ColorImage>,
}

impl Canvas {
    pub(crate) fn take_textures(&mut self, delta: &mut TexturesDelta) {
        for (id, changes) in delta.set.drain() {
            for change in changes {
                let ImageData::Color(image) = change.image;
                match change.pos {
                    None => {
                        self.textures.insert(id, Arc::unwrap_or_clone(image));
                    }
                    Some(at) => {
                        if let Some(texture) = self.textures.get_mut(&id) {
                            patch(texture, &image, at);
                        }
                    }
                }
            }
        }
    }

    pub(crate) fn free_textures(&mut self, delta: &mut TexturesDelta) {
        for id in delta.free.drain() {
            self.textures.remove(&id);
        }
    }

    /// A picture of the meshes, `size` pixels large.
    pub(crate) fn draw(
        &self,
        size: Vec2,
        scale: f32,
        background: Color32,
        meshes: &[ClippedPrimitive],
    ) -> ColorImage {
        let mut image = ColorImage::filled([pixel(size.x), pixel(size.y)], background);
        for clipped in meshes {
            let Primitive::Mesh(mesh) = &clipped.primitive else { continue };
            let Some(texture) = self.textures.get(&mesh.texture_id) else { continue };
            let clip = Clip {
                left: pixel((clipped.clip_rect.min.x * scale).round()).min(image.width()),
                top: pixel((clipped.clip_rect.min.y * scale).round()).min(image.height()),
                right: pixel((clipped.clip_rect.max.x * scale).round()).min(image.width()),
                bottom: pixel((clipped.clip_rect.max.y * scale).round()).min(image.height()),
            };
            draw_mesh(&mut image, mesh, texture, scale, &clip);
        }
        image
    }
}

fn patch(texture: &mut ColorImage, image: &ColorImage, [left, top]: [usize; 2]) {
    for row in 0..image.height().min(texture.height().saturating_sub(top)) {
        let width = image.width().min(texture.width().saturating_sub(left));
        let start = (top + row) * texture.width() + left;
        let from = row * image.width();
        texture.pixels[start..start + width].copy_from_slice(&image.pixels[from..from + width]);
    }
}

/// A coordinate as a pixel; what is left of or above the picture is its edge.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, which is wanted")]
fn pixel(at: f32) -> usize {
    at.max(0.0).ceil() as usize
}

/// The pixels that may be drawn.
struct Clip {
    left: usize,
    top: usize,
    right: usize,
    bottom: usize,
}

fn draw_mesh(image: &mut ColorImage, mesh: &Mesh, texture: &ColorImage, scale: f32, clip: &Clip) {
    for corners in mesh.indices.chunks_exact(3) {
        let corner = |index: u32| mesh.vertices.get(index as usize).map(|vertex| scaled(vertex, scale));
        if let (Some(a), Some(b), Some(c)) = (corner(corners[0]), corner(corners[1]), corner(corners[2])) {
            draw_triangle(image, [a, b, c], texture, clip);
        }
    }
}

fn scaled(vertex: &Vertex, scale: f32) -> Vertex {
    Vertex { pos: vertex.pos * scale, ..*vertex }
}

/// Twice the area of a triangle; its sign is the direction around it.
fn area(a: Pos2, b: Pos2, c: Pos2) -> f32 {
    (b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x)
}

/// Whether pixels that lie exactly on the edge belong to the triangle: of two triangles that share it, to one only.
fn owns_edge(from: Pos2, to: Pos2) -> bool {
    match to.y.total_cmp(&from.y) {
        Ordering::Less => true,
        Ordering::Equal => to.x > from.x,
        Ordering::Greater => false,
    }
}

fn draw_triangle(image: &mut ColorImage, mut corners: [Vertex; 3], texture: &ColorImage, clip: &Clip) {
    let [a, b, c] = corners.map(|corner| corner.pos);
    let mut whole = area(a, b, c);
    if whole == 0.0 || !whole.is_finite() {
        return;
    }
    if whole < 0.0 {
        corners.swap(1, 2);
        whole = -whole;
    }
    let [a, b, c] = corners.map(|corner| corner.pos);
    let owned = [owns_edge(b, c), owns_edge(c, a), owns_edge(a, b)];
    let left = pixel(a.x.min(b.x).min(c.x) - 0.5).max(clip.left);
    let right = (pixel(a.x.max(b.x).max(c.x) + 0.5)).min(clip.right);
    let top = pixel(a.y.min(b.y).min(c.y) - 0.5).max(clip.top);
    let bottom = (pixel(a.y.max(b.y).max(c.y) + 0.5)).min(clip.bottom);
    let width = image.width();
    for y in top..bottom {
        for x in left..right {
            let at = middle(x, y);
            let parts = [area(b, c, at), area(c, a, at), area(a, b, at)];
            let is_inside =
                parts.iter().zip(owned).all(|(part, owned)| *part > 0.0 || (*part == 0.0 && owned));
            if is_inside {
                let colour = shade(&corners, parts.map(|part| part / whole), texture);
                let below = &mut image.pixels[y * width + x];
                *below = blend(colour, *below);
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "pictures are smaller than that")]
fn middle(x: usize, y: usize) -> Pos2 {
    Pos2::new(x as f32 + 0.5, y as f32 + 0.5)
}

type Rgba = [f32; 4];

fn channels(colour: Color32) -> Rgba {
    colour.to_array().map(|channel| f32::from(channel) / 255.0)
}

fn shade(corners: &[Vertex; 3], parts: [f32; 3], texture: &ColorImage) -> Rgba {
    let mut uv = Vec2::ZERO;
    let mut tint = [0.0; 4];
    for (corner, part) in corners.iter().zip(parts) {
        uv += corner.uv.to_vec2() * part;
        let colour = channels(corner.color);
        tint = std::array::from_fn(|channel| tint[channel] + colour[channel] * part);
    }
    let texel = sample(texture, uv);
    std::array::from_fn(|channel| tint[channel] * texel[channel])
}

/// The colour of a texture at a point between 0 and 1, mixed from the four texels around it.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "textures are small"
)]
fn sample(texture: &ColorImage, uv: Vec2) -> Rgba {
    let [width, height] = texture.size;
    if width == 0 || height == 0 {
        return [1.0; 4];
    }
    let (x, y) = (uv.x * width as f32 - 0.5, uv.y * height as f32 - 0.5);
    let (right, down) = (x - x.floor(), y - y.floor());
    let texel = |dx: f32, dy: f32| {
        let column = (x.floor() + dx).clamp(0.0, width as f32 - 1.0) as usize;
        let row = (y.floor() + dy).clamp(0.0, height as f32 - 1.0) as usize;
        channels(texture.pixels[row * width + column])
    };
    let mix = |from: Rgba, to: Rgba, part: f32| -> Rgba {
        std::array::from_fn(|channel| from[channel] + (to[channel] - from[channel]) * part)
    };
    mix(mix(texel(0.0, 0.0), texel(1.0, 0.0), right), mix(texel(0.0, 1.0), texel(1.0, 1.0), right), down)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 255")]
fn blend(colour: Rgba, below: Color32) -> Color32 {
    let below = channels(below);
    let mixed: [u8; 4] = std::array::from_fn(|channel| {
        let mixed = colour[channel] + below[channel] * (1.0 - colour[3]);
        (mixed.clamp(0.0, 1.0) * 255.0).round() as u8
    });
    Color32::from_rgba_premultiplied(mixed[0], mixed[1], mixed[2], mixed[3])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn white() -> ColorImage {
        ColorImage::filled([1, 1], Color32::WHITE)
    }

    fn corner(x: f32, y: f32, color: Color32) -> Vertex {
        Vertex { pos: Pos2::new(x, y), uv: Pos2::ZERO, color }
    }

    const ALL: Clip = Clip { left: 0, top: 0, right: 8, bottom: 8 };

    #[test]
    fn two_triangles_fill_their_rectangle_once() {
        let half = Color32::from_rgba_premultiplied(64, 0, 0, 128);
        let mut image = ColorImage::filled([8, 8], Color32::BLACK);
        let [a, b, c, d] = [(1.0, 1.0), (6.0, 1.0), (6.0, 5.0), (1.0, 5.0)].map(|(x, y)| corner(x, y, half));
        draw_triangle(&mut image, [a, b, c], &white(), &ALL);
        draw_triangle(&mut image, [a, c, d], &white(), &ALL);
        for y in 0..8 {
            for x in 0..8 {
                let red = if (1..6).contains(&x) && (1..5).contains(&y) { 64 } else { 0 };
                assert_eq!(image[(x, y)].r(), red, "{x}, {y}");
            }
        }
    }

    #[test]
    fn nothing_is_drawn_outside_of_the_clip() {
        let mut image = ColorImage::filled([8, 8], Color32::BLACK);
        let corners = [(-100.0, -100.0), (300.0, -100.0), (-100.0, 300.0)];
        let clip = Clip { left: 2, top: 3, right: 4, bottom: 5 };
        draw_triangle(&mut image, corners.map(|(x, y)| corner(x, y, Color32::WHITE)), &white(), &clip);
        let drawn = image.pixels.iter().filter(|colour| **colour == Color32::WHITE).count();
        assert_eq!(drawn, 4);
    }

    #[test]
    fn triangles_without_an_area_or_without_numbers_are_harmless() {
        let mut image = ColorImage::filled([8, 8], Color32::BLACK);
        for corners in [
            [(1.0, 1.0); 3],
            [(f32::NAN, 1.0), (2.0, 2.0), (3.0, 1.0)],
            [(f32::MAX, 0.0), (0.0, 0.0), (0.0, f32::MAX)],
        ] {
            draw_triangle(&mut image, corners.map(|(x, y)| corner(x, y, Color32::WHITE)), &white(), &ALL);
        }
    }
}
