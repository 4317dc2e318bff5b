//! Colours, dashes and markers, and the style sheet that they are in.
//!
//! Eight styles, told apart by three things at once: colour (Okabe and Ito's palette, which all
//! common kinds of colour vision can tell apart), dash and marker. Where a colour of theirs is too
//! pale for its ground (contrast below 3:1), a darker or lighter one of the same hue stands for it.
//! Colours stand as plain values, not as CSS variables, which drawing programs do not know.

/// How many styles there are; style 8 looks like style 0.
pub const STYLES: usize = 8;

/// A quiet grey, for what is there to be compared with.
pub const QUIET: usize = usize::MAX;

/// Pixels of a plain text in a plot.
pub const FONT: f64 = 13.0;

/// The style sheet of all plots. Dark on screens of those who ask for it; paper is white.
pub const CSS: &str = "\
.plot text{font:13px system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;fill:#1f2328}
.plot text.heading{font-size:16px;font-weight:600}
.plot text.soft{fill:#57606a}
.plot text.small{font-size:12px}
.plot text.on{fill:#fff}
.plot text.on-light{fill:#000}
.plot text.haloed{stroke:#fff;stroke-width:4px;stroke-linejoin:round;paint-order:stroke}
.plot .ground{fill:#fff}
.plot .grid{stroke:#e1e5ea;fill:none}
.plot .axis{stroke:#6e7781;fill:none}
.plot .reference{stroke:#57606a;stroke-dasharray:2 3;fill:none}
.plot .leader{stroke-width:1;opacity:.6;fill:none}
.plot .line{fill:none;stroke-width:2;stroke-linejoin:round}
.plot .error{fill:none;stroke-width:1.2}
.plot .marker{stroke:#fff;stroke-width:1}
.plot .area{opacity:.85}
.plot .gap{stroke:#fff;stroke-width:1;fill:none}
.plot .halo{stroke:#fff;stroke-width:4;fill:none;opacity:.8}
.plot .whisker{stroke:#1f2328;stroke-width:1.5;fill:none}
.plot .d1{stroke-dasharray:8 3}
.plot .d2{stroke-dasharray:2 3}
.plot .d3{stroke-dasharray:9 3 2 3}
.plot .d5{stroke-dasharray:5 2}
.plot .d6{stroke-dasharray:12 3 2 3 2 3}
.plot .d7{stroke-dasharray:3 2}
.plot .s0{stroke:#0072b2}.plot .f0{fill:#0072b2}
.plot .s1{stroke:#d55e00}.plot .f1{fill:#d55e00}
.plot .s2{stroke:#009e73}.plot .f2{fill:#009e73}
.plot .s3{stroke:#cc79a7}.plot .f3{fill:#cc79a7}
.plot .s4{stroke:#1f2328}.plot .f4{fill:#1f2328}
.plot .s5{stroke:#b87e00}.plot .f5{fill:#b87e00}
.plot .s6{stroke:#3794cd}.plot .f6{fill:#3794cd}
.plot .s7{stroke:#857b00}.plot .f7{fill:#857b00}
.plot .s8{stroke:#8c959f}.plot .f8{fill:#8c959f}
.plot .rest{fill:#cfd5dc}
.plot .m1{fill:#a9cfe6}.plot .m2{fill:#62a7d1}.plot .m3{fill:#1f7db5}.plot .m4{fill:#004f7d}
.plot .l1{fill:#f6c9a8}.plot .l2{fill:#ea935a}.plot .l3{fill:#d55e00}.plot .l4{fill:#8a3c00}
@media screen and (prefers-color-scheme:dark){
.plot text{fill:#e6e9ed}
.plot text.soft{fill:#a5adb8}
.plot text.on,.plot text.on-light{fill:#14171b}
.plot text.haloed{stroke:#14171b}
.plot .ground{fill:#14171b}
.plot .grid{stroke:#2c323a}
.plot .axis{stroke:#7d8590}
.plot .reference{stroke:#a5adb8}
.plot .marker{stroke:#14171b}
.plot .gap{stroke:#14171b}
.plot .halo{stroke:#14171b}
.plot .whisker{stroke:#e6e9ed}
.plot .s0{stroke:#56b4e9}.plot .f0{fill:#56b4e9}
.plot .s1{stroke:#f07c24}.plot .f1{fill:#f07c24}
.plot .s2{stroke:#16b88a}.plot .f2{fill:#16b88a}
.plot .s3{stroke:#d98cb8}.plot .f3{fill:#d98cb8}
.plot .s4{stroke:#e6e9ed}.plot .f4{fill:#e6e9ed}
.plot .s5{stroke:#e69f00}.plot .f5{fill:#e69f00}
.plot .s6{stroke:#3f8fd8}.plot .f6{fill:#3f8fd8}
.plot .s7{stroke:#f0e442}.plot .f7{fill:#f0e442}
.plot .rest{fill:#3d444d}
.plot .m1{fill:#17496a}.plot .m2{fill:#1f70a0}.plot .m3{fill:#3d9dd4}.plot .m4{fill:#9fd8fa}
.plot .l1{fill:#6a3510}.plot .l2{fill:#96480f}.plot .l3{fill:#e0701c}.plot .l4{fill:#ffb985}
}
";

/// Its number in the style sheet.
pub(crate) fn number(style: usize) -> usize {
    if style == QUIET {
        STYLES
    } else {
        style % STYLES
    }
}

/// Class of what is drawn in the colour of this style.
pub fn stroke(style: usize) -> String {
    format!("s{}", number(style))
}

/// Classes of a line of this style.
pub fn line(style: usize) -> String {
    let style = number(style);
    format!("line s{style} d{style}")
}

/// Class of an area of this style; none is the quiet grey of what is left.
pub fn fill(style: Option<usize>) -> String {
    style.map_or("rest".to_string(), |style| format!("f{}", number(style)))
}

/// A text on an area of this style: light or dark, whichever can be read.
pub fn text_on(style: Option<usize>) -> &'static str {
    // White is not read well on the lighter ones.
    match style.map(|style| style % STYLES) {
        None => "",
        Some(0 | 4) => "on",
        Some(_) => "on-light",
    }
}
