"""The look of the page, light and dark, wide and narrow."""

from __future__ import annotations

from typing import Final

CSS: Final = """
:root{color-scheme:light dark;--bg:#fff;--fg:#18202c;--muted:#566173;--line:#dde2ea;--soft:#eef1f6;
--card:#f6f8fb;--accent:#2463a8;--bad:#b3261e;--good:#1c7a4a;--band:#2463a822}
@media(prefers-color-scheme:dark){:root{--bg:#11151b;--fg:#e5e9f0;--muted:#9ba6b7;--line:#2b3441;
--soft:#1c232d;--card:#181e27;--accent:#7db4ee;--bad:#ff8a80;--good:#6fd3a0;--band:#7db4ee26}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--fg);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",sans-serif}
main{max-width:1240px;margin:0 auto;padding:28px 24px 60px}
h1{font-size:26px;line-height:1.25;margin:0;overflow-wrap:anywhere}
h2{font-size:19px;margin:44px 0 4px;overflow-wrap:anywhere}
h3{font-size:15px;margin:28px 0 8px}
a{color:var(--accent)}p{margin:6px 0;max-width:78ch}
.sub,.note,.xtitle,.ytitle,.below,.name{color:var(--muted)}
.sub{font-size:13.5px;max-width:none;overflow-wrap:anywhere}.note{font-size:13px}
.badge{display:inline-block;font-size:12px;font-weight:600;padding:1px 9px;border-radius:99px;
border:1px solid currentColor;vertical-align:4px;margin-left:8px;color:var(--accent)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(172px,1fr));gap:12px;margin:18px 0}
.tile{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:12px 14px}
.name{font-size:12.5px}.value{font-size:22px;font-weight:650;line-height:1.35;
font-variant-numeric:tabular-nums}.value.long{font-size:15px;line-height:1.98}
.below{font-size:12.5px}
.bar{height:6px;border-radius:3px;background:var(--line);margin:4px 0 5px;overflow:hidden}
.bar i{display:block;height:100%;background:var(--accent);border-radius:3px}
.two{display:grid;grid-template-columns:1fr 1fr;gap:4px 34px}.two>div{min-width:0}
.two>div:last-child:nth-child(odd){grid-column:1/-1}
.pair{display:grid;grid-template-columns:minmax(0,420px) minmax(0,1fr);gap:28px;align-items:start}
.chart{--left:46px;margin:6px 0}.chart.gantt{--left:112px}
.plot{position:relative;margin:0 10px 0 var(--left)}
.plot svg{display:block;width:100%;overflow:visible}
.square .plot{max-width:380px}
.grid,.rows{fill:none;stroke:var(--line);vector-effect:non-scaling-stroke}
.rows{stroke:var(--soft)}.gantt svg{background:var(--card)}
.line{fill:none;stroke-width:2;stroke-linejoin:round;vector-effect:non-scaling-stroke}
.dash{fill:none;stroke:var(--muted);stroke-dasharray:4 4;vector-effect:non-scaling-stroke}
.dot{fill:none;stroke:var(--accent);stroke-width:8;stroke-linecap:round;opacity:.75;
vector-effect:non-scaling-stroke}.band{fill:var(--band)}.range{fill-opacity:.18}
.b{cursor:pointer}.dim [data-k]{opacity:.13}.dim [data-k].on{opacity:1}
.xt,.yt,.mark,.dev,.in{position:absolute;font-size:12px;line-height:1;white-space:nowrap;
color:var(--muted);font-variant-numeric:tabular-nums;pointer-events:none}
.xt{top:100%;transform:translate(-50%,6px)}.yt{right:100%;transform:translate(-7px,-50%)}
.xtitle{font-size:12.5px;text-align:center;margin:24px 10px 0 var(--left)}
.ytitle{font-size:12.5px;margin:0 0 6px}
.mark{transform:translate(6px,0);color:var(--fg);background:var(--bg);padding:2px 3px}
.mark.before{transform:translate(calc(-100% - 6px),0)}
.dev{right:100%;width:106px;padding-right:8px;text-align:right;display:flex;align-items:center;
justify-content:flex-end;overflow:hidden}.dev b{font-weight:400;opacity:.75}
.in{overflow:hidden;text-overflow:ellipsis;padding:2px 5px;margin-left:2px;font-size:11.5px;
color:#fff;background:#10151dbb;border-radius:4px;transform:translateY(-50%)}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:3px 14px;padding:0;margin:8px 0 4px;
font-size:12.5px}.legend li{display:flex;align-items:center;gap:6px;max-width:300px;cursor:default;
border-radius:4px}.legend span{overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.legend i,td i[class]{flex:none;display:inline-block;width:11px;height:11px;border-radius:3px}
td i[class]{margin-right:7px;vertical-align:-1px}
.scroll{overflow:auto;max-height:min(860px,80vh);border:1px solid var(--line);
border-radius:10px;margin:8px 0}
table{border-collapse:collapse;width:100%;font-size:13.5px;font-variant-numeric:tabular-nums}
th{position:sticky;top:0;background:var(--card);text-align:left;border-bottom:1px solid var(--line);
vertical-align:bottom}
th button{all:unset;cursor:pointer;padding:7px 10px;color:var(--muted);font-size:12.5px;
line-height:1.3}th button:focus-visible,li:focus-visible{outline:2px solid var(--accent)}
th[aria-sort] button{color:var(--fg);font-weight:600}
th[aria-sort=ascending] button::after{content:" ▲"}
th[aria-sort=descending] button::after{content:" ▼"}
td{padding:5px 10px;border-bottom:1px solid var(--soft);white-space:nowrap;max-width:300px;
overflow:hidden;text-overflow:ellipsis}tr:last-child td{border-bottom:0}
tbody tr:hover{background:var(--soft)}.n{text-align:right}
.failed,.cancelled{color:var(--bad)}.unfinished{color:var(--muted)}.finished{color:var(--good)}
details{border-top:1px solid var(--line);margin-top:26px;padding-top:6px}
summary{cursor:pointer;font-size:19px;font-weight:650;padding:6px 0;overflow-wrap:anywhere}
#tip{position:fixed;z-index:9;pointer-events:none;background:var(--fg);color:var(--bg);
font-size:12.5px;line-height:1.4;padding:6px 9px;border-radius:6px;max-width:320px;
white-space:pre-line;overflow-wrap:anywhere;display:none}
footer{margin-top:44px;color:var(--muted);font-size:13px}
@media(max-width:820px){.two,.pair{grid-template-columns:minmax(0,1fr)}}
@media(max-width:560px){main{padding:18px 14px 40px}h1{font-size:21px}.value{font-size:18px}
.value.long{font-size:14px}
.tiles{grid-template-columns:1fr 1fr;gap:8px}.tile{padding:9px 11px}
.chart.gantt{--left:64px}.dev{width:60px;padding-right:6px}.dev b{display:none}
.xt.odd{display:none}.in{display:none}}
@media print{.scroll{max-height:none;overflow:visible}}
"""
